"""Several algorithms on the same partitions and seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import is_algorithm
from fedcord.core.errors import ConfigError, gather, shown
from fedcord.core.names import name_problem
from fedcord.core.params import LARGEST
from fedcord.data.facts import Stated
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config, merged, read_toml
from fedcord.experiment.tune_entry import TuneEntry
from fedcord.metrics.registry import metric_problems
from fedcord.store.plan_record import WrittenPlan
from fedcord.store.study_plan import StudyPlan

OWN_SETTINGS = (
    *("model", "rounds", "participation", "evaluate_every", "secure", "attack", "test_views"),
)
"""What a variant may have of its own. Data, clients and seed are common, so results are paired."""

MAX_SEEDS = 10_000
OWN_FILES = (
    *("leaderboard.csv", "leaderboard.md", "leaderboard.tex", "plots", "report.html"),
    *("tuning", "tuning.json", "plan.json", "sha256sums"),
)
"""What reports and tuning write into a study's folder, beside those of the contenders."""
NOTHING = "nothing to compare; name at least one algorithm."
FORMS: Mapping[str, tuple[type, str]] = {
    "name": (str, "text, in quotes"),
    "algorithms": (list, "a list of names"),
    "seeds": (int, "a whole number, how many to run"),
    "metric": (str, "the name of a metric, in quotes"),
    "settings": (dict, "a table, [settings]"),
    "params": (dict, "a table, [params]"),
    "task": (dict, "a table, [task]"),
    "tune": (dict, "a table, [tune]"),
    "plan": (dict, "a table, [plan]"),
    "variants": (dict, "tables, [variants.LABEL]"),
}
"""The entries of a study file."""
MISPLACED = {
    "algorithm": "algorithms = [NAME, …] at the top, or [variants.LABEL]",
    "params": "[params], or [variants.LABEL.params]",
}
"""Fields of a run that are no settings of a study."""


@dataclass(frozen=True)
class Study:
    """A grid of runs: every contender under every seed.

    Attributes:
        name: of the study and its folder.
        contenders: label to configuration under the first seed.
        seeds: each decides partition, weights and sampling, for all contenders alike.
        stated: what the study says of its data, which data that does not fit is measured by.
        metric: what contenders are compared by; None: what their runs were asked about.
        tune: how contenders are to be tuned first; None: not at all, or as flags say.
        plan: what was decided of it before it is run; None where nothing is written down.
    """

    name: str
    contenders: Mapping[str, RunConfig]
    seeds: tuple[int, ...]
    stated: Stated = field(default_factory=Stated)
    metric: str | None = None
    tune: TuneEntry | None = None
    plan: WrittenPlan | None = None

    def runs(self) -> list[tuple[str, RunConfig]]:
        """All runs, seed by seed, so that an unfinished study is still paired."""
        return [
            (label, replace(config, seed=seed))
            for seed in self.seeds
            for label, config in self.contenders.items()
        ]


def make_study(
    algorithms: Sequence[str],
    settings: Mapping[str, Any],
    num_seeds: int,
    assignments: Sequence[str] = (),
    name: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    metric: str | None = None,
) -> Study:
    """A study from names and common settings, or one ConfigError with every mistake.

    Args:
        algorithms: names; each becomes a contender of its own name.
        settings: common values for the fields of RunConfig.
        num_seeds: how many seeds, counted up from `settings["seed"]`.
        assignments: `--set` texts; `NAME:key=value` reaches one contender only.
        name: of the study; by default made from its content.
        variants: label to {"algorithm": name or object, "params": {...}} and settings of its own,
            for one algorithm in several forms.
        metric: name of what contenders are compared by.
    """
    forms: dict[str, Mapping[str, Any]] = {
        label: {"algorithm": name} for name, label in _labels(algorithms).items()
    }
    problems = [f"'{a}' is listed twice; list it once." for a in _repeated(algorithms)]
    own = [label for label, form in forms.items() if ":" in form["algorithm"]]
    problems += filter(None, map(_label_problem, own))
    for label, form in (variants or {}).items():
        found = [*filter(None, [_label_problem(label)]), *_form_problems(label, form)]
        if str(label).casefold() in {other.casefold() for other in forms}:
            found.append(f"variant '{label}' has the name of another contender; rename it.")
        problems += found
        if not found:
            forms[label] = form
    if name is not None:
        problems += filter(None, [name_problem("name of the study", name)])
    if not forms and not problems:
        problems.append(NOTHING)
    contenders = {}
    for label, form in forms.items():
        own_settings = {name: form[name] for name in OWN_SETTINGS if name in form}
        values = {**settings, **own_settings, "algorithm": form["algorithm"]}
        with gather(problems):
            values["params"] = _merged_params(settings.get("params", {}), form.get("params", {}))
            chosen = texts_for(label, forms, assignments)
            contenders[label] = load_config(values, chosen, fixed_rounds_win=True)
    problems += metric_problems(metric) if metric is not None else []
    first = next(iter(contenders.values())).seed if contenders else 0
    if not isinstance(num_seeds, int) or isinstance(num_seeds, bool):
        problems.append(f"seeds = {shown(num_seeds)}: must be a whole number, how many to run.")
    elif not 1 <= num_seeds <= MAX_SEEDS:
        problems.append(f"seeds = {shown(num_seeds)}: must be at least 1 and at most {MAX_SEEDS}.")
    elif first + num_seeds - 1 > LARGEST:
        problems.append(f"seed = {first} leaves no room for {num_seeds} seeds; choose a lower one.")
    if problems:
        raise ConfigError(problems)
    seeds = tuple(range(first, first + num_seeds))
    return Study(name or _name(contenders, seeds), contenders, seeds, metric=metric)


def load_study(path: Path, overrides: Mapping[str, Any], assignments: Sequence[str]) -> Study:
    """A study from a TOML file; flags win over the file."""
    values = read_toml(path)
    problems = []
    unknown = sorted(values.keys() - FORMS.keys())
    if unknown:
        problems.append(
            f"'{path}' has unknown entries: {', '.join(unknown)}. Allowed: name, algorithms, "
            "seeds, metric, [settings], [params], [task], [tune], [plan], [variants.LABEL]."
        )
    for entry, (kind, words) in FORMS.items():
        if entry in values and not isinstance(values[entry], kind):
            problems.append(f"'{path}': {entry} = {shown(values.pop(entry))}: must be {words}.")
    algorithms, settings = values.get("algorithms", []), values.get("settings", {})
    if not all(isinstance(a, str) for a in algorithms):
        problems.append(f"'{path}': algorithms = {shown(algorithms)}: must be a list of names.")
        algorithms = [a for a in algorithms if isinstance(a, str)]
    for entry, instead in MISPLACED.items():
        if entry in settings:
            problems.append(f"'{path}': [settings] has {entry}, which stands elsewhere: {instead}.")
    common = {k: v for k, v in settings.items() if k not in MISPLACED}
    common |= {k: v for k, v in overrides.items() if k not in ("seeds", "metric")}
    common["params"] = values.get("params", {})
    variants = values.get("variants", {})
    variants = {label: _without(form, overrides) for label, form in variants.items()}
    seeds = overrides.get("seeds", values.get("seeds", 1))
    with gather(problems):
        stated = Stated.from_plain(values.get("task", {}))
    tune = None
    with gather(problems):
        tune = TuneEntry.from_plain(values["tune"]) if "tune" in values else None
    plan = None
    with gather(problems):
        plan = StudyPlan.from_plain(values["plan"]) if "plan" in values else None
    with gather(problems):
        metric = overrides.get("metric", values.get("metric"))
        name = values.get("name", path.stem)
        study = make_study(algorithms, common, seeds, assignments, name, variants, metric)
        if plan is not None:
            plan.check(study.contenders)
            study = replace(study, plan=WrittenPlan(plan, path))
    if len(problems) > 1 and problems[-1] == NOTHING:  # what is told already left nothing
        problems.pop()
    if problems:
        raise ConfigError(problems)
    return replace(study, stated=stated, tune=tune)


def named_in(path: Path) -> list[str]:
    """The algorithms that a study file names, wherever they stand; `load_study` judges the file."""
    values = read_toml(path)
    listed, variants = values.get("algorithms"), values.get("variants")
    names = list(listed) if isinstance(listed, list) else []
    forms = variants.values() if isinstance(variants, dict) else ()
    names += [form.get("algorithm") for form in forms if isinstance(form, dict)]
    return [name for name in names if isinstance(name, str)]


def texts_for(
    label: str, labels: Mapping[str, Any], assignments: Sequence[str], flag: str = "--set"
) -> list[str]:
    """The texts of `--set` or another flag that concern one contender."""
    chosen = []
    for text in assignments:
        head, colon, rest = text.partition(":")
        if colon and "=" not in head:
            if head not in labels:
                raise ConfigError(
                    f"{flag} {shown(text)}: '{head}' is not among {', '.join(labels)}; write "
                    "NAME:key=value for one of them, or key=value for all."
                )
            if head == label:
                chosen.append(rest)
        else:
            chosen.append(text)
    return chosen


def _without(form: Any, overrides: Mapping[str, Any]) -> Any:
    """A variant but for the settings that a flag decides; what is no table is judged later."""
    if not isinstance(form, dict):
        return form
    return {name: value for name, value in form.items() if name not in overrides}


def _labels(algorithms: Sequence[str]) -> dict[str, str]:
    """Name to label: a user's own `module:Class` is known by its class, if no other is."""
    short = [name.rpartition(":")[2] for name in algorithms]
    # on some file systems capitals make no difference
    folded = [label.casefold() for name, label in dict(zip(algorithms, short, strict=True)).items()]
    return {
        name: label if folded.count(label.casefold()) == 1 else name.replace(":", ".")
        for name, label in zip(algorithms, short, strict=True)
    }


def _form_problems(label: str, form: object) -> list[str]:
    """What is wrong with a variant as it is written."""
    example = f'such as [variants.{label}] algorithm = "fedprox"'
    if not isinstance(form, Mapping):
        return [f"variant '{label}' = {shown(form)}: must be a table, {example}."]
    problems = []
    if not isinstance(form.get("algorithm"), str) and not is_algorithm(form.get("algorithm")):
        problems.append(f"variant '{label}' needs the name of an algorithm, {example}.")
    if not isinstance(form.get("params", {}), Mapping):
        problems.append(
            f"variant '{label}': params = {shown(form['params'])}: must be a table, "
            f"[variants.{label}.params]."
        )
    strange = sorted(map(str, form.keys() - {"algorithm", "params", *OWN_SETTINGS}))
    if strange:
        problems.append(
            f"variant '{label}' has {', '.join(strange)}; a variant has algorithm, params, and of "
            f"the settings {', '.join(OWN_SETTINGS)}. The rest is common to a study."
        )
    return problems


def _label_problem(label: object) -> str | None:
    """Why a contender cannot have a folder of this name in the study's."""
    if str(label).casefold() in OWN_FILES:
        return (
            f"contender '{label}' has the name of a file of the report or tuning; choose another."
        )
    return name_problem("contender", label)


def _merged_params(common: object, own: Mapping[str, Any]) -> object:
    """A contender's parameters over those of all; what is no table is judged later."""
    return merged(common, own) if isinstance(common, Mapping) else common


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _name(contenders: Mapping[str, RunConfig], seeds: Sequence[int]) -> str:
    """The same study gets the same name, so that it can be found again to resume."""
    content = {label: config.hash for label, config in contenders.items()}
    text = json.dumps([content, list(seeds)], sort_keys=True)
    return "compare-" + hashlib.sha256(text.encode()).hexdigest()[:8]
