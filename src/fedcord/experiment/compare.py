"""Several algorithms on the same partitions and seeds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcord.core.errors import ConfigError, FailedRunError
from fedcord.data.dataset import Dataset
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config, read_toml
from fedcord.experiment.run import NO_FAILURES, Place, Progress, failure_record, run
from fedcord.store.run_folder import FAILURE, RunFolder

OWN_SETTINGS = ("model", "rounds", "participation", "evaluate_every")
"""What a variant may have of its own. Data, clients and seed are common, so results are paired."""


@dataclass(frozen=True)
class Study:
    """A grid of runs: every contender under every seed.

    Attributes:
        name: of the study and its folder.
        contenders: label to configuration under the first seed.
        seeds: each decides partition, weights and sampling, for all contenders alike.
    """

    name: str
    contenders: Mapping[str, RunConfig]
    seeds: tuple[int, ...]

    def runs(self) -> list[tuple[str, RunConfig]]:
        """All runs, seed by seed, so that an unfinished study is still paired."""
        return [
            (label, replace(config, seed=seed))
            for seed in self.seeds
            for label, config in self.contenders.items()
        ]


@dataclass(frozen=True)
class Failure:
    """A run of a study that has no result.

    Attributes:
        contender: its label in the study.
        algorithm: its name.
        seed: of the run.
        error: the kind of error.
        message: why, in words.
    """

    contender: str
    algorithm: str
    seed: int
    error: str
    message: str

    def __str__(self) -> str:
        return f"{self.contender} seed {self.seed}: {self.error}: {self.message}"


def make_study(
    algorithms: Sequence[str],
    settings: Mapping[str, Any],
    num_seeds: int,
    assignments: Sequence[str] = (),
    name: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
) -> Study:
    """A study from names and common settings, or one ConfigError with every mistake.

    Args:
        algorithms: names; each becomes a contender of its own name.
        settings: common values for the fields of RunConfig.
        num_seeds: how many seeds, counted up from `settings["seed"]`.
        assignments: `--set` texts; `NAME:key=value` reaches one contender only.
        name: of the study; by default made from its content.
        variants: label to {"algorithm": name, "params": {...}} and settings of its own, for one
            algorithm in several forms.
    """
    # a user's own `module:Class` is known by its class
    forms: dict[str, Mapping[str, Any]] = {
        a.rpartition(":")[2]: {"algorithm": a} for a in algorithms
    }
    problems = [f"'{a}' is listed twice; list it once." for a in _repeated(algorithms)]
    for label, form in (variants or {}).items():
        if label in forms or not isinstance(form, Mapping) or "algorithm" not in form:
            problems.append(
                f"variant '{label}' needs a label of its own and an algorithm, such as "
                f'[variants.{label}] algorithm = "fedprox".'
            )
            continue
        strange = sorted(form.keys() - {"algorithm", "params", *OWN_SETTINGS})
        if strange:
            problems.append(
                f"variant '{label}' has {', '.join(strange)}; a variant has algorithm, params, and "
                f"of the settings {', '.join(OWN_SETTINGS)}. The rest is common to a study."
            )
        forms[label] = form
    if not forms:
        problems.append("nothing to compare; name at least one algorithm.")
    if num_seeds < 1:
        problems.append(f"seeds = {num_seeds}: must be at least 1.")
    contenders = {}
    for label, form in forms.items():
        own_settings = {name: form[name] for name in OWN_SETTINGS if name in form}
        values = {**settings, **own_settings, "algorithm": form["algorithm"]}
        values["params"] = {**settings.get("params", {}), **form.get("params", {})}
        try:
            own = _assignments_for(label, forms, assignments)
            contenders[label] = load_config(values, own, fixed_rounds_win=True)
        except ConfigError as error:
            problems += [p for p in error.problems if p not in problems]
    if problems:
        raise ConfigError(problems)
    first = next(iter(contenders.values())).seed
    seeds = tuple(range(first, first + num_seeds))
    return Study(name or _name(contenders, seeds), contenders, seeds)


def load_study(path: Path, overrides: Mapping[str, Any], assignments: Sequence[str]) -> Study:
    """A study from a TOML file; flags win over the file."""
    values = read_toml(path)
    unknown = values.keys() - {"name", "algorithms", "seeds", "variants", "settings", "params"}
    if unknown:
        raise ConfigError(
            f"'{path}' has unknown entries: {', '.join(sorted(unknown))}. Allowed: name, "
            "algorithms, seeds, [settings], [params], [variants.LABEL]."
        )
    algorithms = values.get("algorithms", [])
    seeds = overrides.get("seeds", values.get("seeds", 1))
    settings = values.get("settings", {})
    if not isinstance(algorithms, list) or not all(isinstance(a, str) for a in algorithms):
        raise ConfigError(f"'{path}': algorithms must be a list of names.")
    if not isinstance(seeds, int) or not isinstance(settings, dict):
        raise ConfigError(f"'{path}': seeds must be a number and [settings] a table.")
    merged = {**settings, **{k: v for k, v in overrides.items() if k != "seeds"}}
    merged["params"] = values.get("params", {})
    variants = values.get("variants", {})
    if not isinstance(variants, dict):
        raise ConfigError(f"'{path}': variants are written as tables, [variants.LABEL].")
    variants = {label: _without(form, overrides) for label, form in variants.items()}
    name = values.get("name", path.stem)
    return make_study(algorithms, merged, seeds, assignments, name, variants)


def run_study(
    study: Study,
    root: Path,
    place: Place,
    progress_for: Callable[[str, RunConfig], Progress] = lambda label, config: Progress(),
    dataset: Dataset | None = None,
) -> list[Failure]:
    """Run what is missing of a study under `root`, one run after another.

    A run that fails does not end the study.

    Returns:
        The runs that failed, now or before.
    """
    failures = []
    for label, config in study.runs():
        out = root / label / f"seed-{config.seed}"
        try:
            run(config, replace(place, out=out), progress_for(label, config), dataset)
        except FailedRunError:  # before, and it is not to be tried again
            failures.append(_failure(label, config, RunFolder(out).read_json(FAILURE)))
        except NO_FAILURES:
            raise
        except Exception as error:
            failures.append(_failure(label, config, failure_record(config, error)))
    return failures


def _failure(label: str, config: RunConfig, record: Mapping[str, Any]) -> Failure:
    error, message = str(record.get("error")), str(record.get("message"))
    return Failure(label, config.algorithm, config.seed, error, message)


def _assignments_for(
    label: str, labels: Mapping[str, Any], assignments: Sequence[str]
) -> list[str]:
    """The `--set` texts that concern one contender."""
    chosen = []
    for text in assignments:
        head, colon, rest = text.partition(":")
        if colon and "=" not in head:
            if head not in labels:
                raise ConfigError(
                    f"--set '{text}': '{head}' is not among {', '.join(labels)}; write "
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


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _name(contenders: Mapping[str, RunConfig], seeds: Sequence[int]) -> str:
    """The same study gets the same name, so that it can be found again to resume."""
    content = {label: config.hash for label, config in contenders.items()}
    text = json.dumps([content, list(seeds)], sort_keys=True)
    return "compare-" + hashlib.sha256(text.encode()).hexdigest()[:8]
