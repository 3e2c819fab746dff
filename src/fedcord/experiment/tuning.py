"""Choosing parameters fairly: for every contender as many trials, on the same seeds.

Successive halving over seeds. All trials run on a first tuning seed, the better half of them on a
second as well, and so on until two are left; the better mean of validation scores wins. One of the
two is always the contender as it was given, so what tuning was worth is known and it can do no harm
on validation data. Runs are never shortened: short ones favour methods that begin fast, and methods
of one round have nothing to shorten.

Nothing here reads a test figure: `validation_score` is all that is taken from a trial. Tuning seeds
are none of the final ones, so partitions, weights and sampling are others, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.errors import ConfigError, gather, shown, unknown_name
from fedcord.core.params import build, declared_spaces, describe, plain, value_of
from fedcord.core.space import Space, parse_space
from fedcord.experiment.compare import Study, texts_for
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import merged, nested
from fedcord.experiment.run import Place
from fedcord.experiment.search import SPREAD, propose, search_problems
from fedcord.metrics.registry import DEFAULT, find_metric
from fedcord.store.checksums import RESULT
from fedcord.store.run_folder import RunFolder
from fedcord.store.tuning_file import (
    TRIALS,
    TUNING,
    Trial,
    Tuned,
    Tuning,
    read_tuning,
    write_tuning,
)

if TYPE_CHECKING:
    from fedcord.experiment.study_runs import Failure

FIRST_SEED = 1_000_000
"""Of tuning; the final seeds of a study count up from 0 or wherever the user begins."""
MAX_TRIALS = 1000
FEWEST = 2
"""Trials to choose between: the contender as it was given, and another."""

RunAll = Callable[[Study, Path], "Sequence[Failure]"]
"""How the runs of a study are done below a folder: as those of the comparison are."""


@dataclass(frozen=True)
class TuningPlan:
    """What is to be tuned, and how.

    Attributes:
        study: the comparison that tuning is for.
        spaces: by label, dotted name to where it is looked for; empty where there is nothing to
            tune.
        trials: of every contender that has a space.
        metric: of validation data.
        search: how trials are proposed.
        seeds: of tuning, one for every halving.
    """

    study: Study
    spaces: Mapping[str, Mapping[str, Space]]
    trials: int
    metric: str
    search: str
    seeds: tuple[int, ...]

    @property
    def tuned(self) -> list[str]:
        """Labels of those who have something to tune."""
        return [label for label, own in self.spaces.items() if own]

    @property
    def common(self) -> set[str]:
        """Parameters that all of these look for."""
        return set.intersection(*(set(self.spaces[label]) for label in self.tuned))

    @property
    def num_runs(self) -> int:
        """How many runs all trials take, if none fails."""
        return sum(halvings(self.trials)) * len(self.tuned)

    @property
    def study_name(self) -> str:
        """Of the tuned study, so that it does not meet the untuned one in its folder."""
        return f"{self.study.name}-tuned-{self.hash[:8]}"

    @property
    def hash(self) -> str:
        """Identity of the plan: two of one hash choose the same."""
        contenders = {
            label: {k: v for k, v in config.plain().items() if k != "seed"}
            for label, config in self.study.contenders.items()
        }
        spaces = {
            label: {name: str(space) for name, space in own.items()}
            for label, own in self.spaces.items()
        }
        how = self.trials, self.metric, self.search, list(self.seeds), _seed(self.study)
        text = json.dumps([contenders, spaces, how], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def halvings(trials: int) -> list[int]:
    """How many trials run on each tuning seed.

    >>> halvings(12)
    [12, 6, 3, 2]
    """
    sizes = [trials]
    while sizes[-1] > FEWEST:
        sizes.append(math.ceil(sizes[-1] / 2))
    return sizes


def plan_tuning(
    study: Study,
    trials: object,
    texts: Sequence[str] = (),
    search: str = SPREAD,
    called: str = "--space",
) -> TuningPlan:
    """A plan, or one ConfigError with every mistake.

    Args:
        study: whose contenders are tuned.
        trials: how many for each, the contender as it was given among them.
        texts: `--space` texts; `NAME:key=low:high` reaches one contender only. Who is reached by
            any is tuned in these parameters, others in those that their algorithms declare.
        search: how trials are proposed.
        called: where texts were given, for messages.
    """
    problems = search_problems(search)
    count = trials if isinstance(trials, int) and not isinstance(trials, bool) else 0
    if not FEWEST <= count <= MAX_TRIALS:
        problems.append(
            f"trials = {shown(trials)}: must be a whole number from {FEWEST} to {MAX_TRIALS}."
        )
        count = FEWEST
    if any(config.validation == 0 for config in study.contenders.values()):
        problems.append(
            "tuning compares trials on clients' validation parts, but validation = 0 keeps none; "
            "leave --validation out, or give a share such as 0.1."
        )
    spaces: dict[str, dict[str, Space]] = {}
    for label, config in study.contenders.items():
        with gather(problems):
            given = texts_for(label, study.contenders, texts, called)
            spaces[label] = _given(config, given, called) or _declared(config)
            _check(label, config, spaces[label], called)
    problems += _unused(study, texts)
    if problems:
        raise ConfigError(problems)
    if not any(spaces.values()):
        raise ConfigError(
            f"{', '.join(spaces)}: nothing to tune, these methods choose what they need by "
            "themselves; leave tuning out, or name parameters with --space."
        )
    return TuningPlan(study, spaces, count, _metric(study), search, _seeds(study, count))


def tune_study(plan: TuningPlan, root: Path, place: Place, run_all: RunAll) -> Tuning:
    """Run what is missing of the trials and write down what was chosen.

    Args:
        plan: from `plan_tuning`.
        root: the study's folder; trials are run folders below `tuning/`.
        place: whether to go on with what is there.
        run_all: does the runs of a study.
    """
    known = read_tuning(root)
    if known is not None:
        if known.plan != plan.hash:
            raise ConfigError(
                f"'{root / TUNING}' is of another tuning; give the same command as before, or "
                "choose another folder with --out."
            )
        if not place.resume:
            raise ConfigError(
                f"'{root}' already holds this tuning; add --resume to go on with it, or choose "
                "another folder with --out."
            )
        if not place.retry_failed:
            return known
    trials = {label: [_as_given(plan, label)] for label in plan.tuned}
    sizes, sign = halvings(plan.trials), find_metric(plan.metric).sign
    done = 0
    while done < plan.trials:  # on the first seed, where proposals may learn from those before
        for label, own in trials.items():
            asked = plan.search, plan.spaces[label], own, plan.trials, _seed(plan.study), sign
            values = propose(*asked, plan.common)
            own += [Trial(len(own) + i, value) for i, value in enumerate(values)]
        waiting = {label: range(done, len(own)) for label, own in trials.items()}
        _run(plan, trials, waiting, plan.seeds[0], root, run_all)
        done = max(map(len, trials.values()))
    for seed, size in zip(plan.seeds[1:], sizes[1:], strict=True):
        kept = {label: best_trials(own, size, sign) for label, own in trials.items()}
        _run(plan, trials, kept, seed, root, run_all)
    tuning = Tuning(
        plan.hash,
        plan.metric,
        plan.search,
        plan.trials,
        plan.seeds,
        {
            label: Tuned(
                {name: str(space) for name, space in spaces.items()},
                tuple(trials.get(label, ())),
                chosen(trials.get(label, ()), sign),
            )
            for label, spaces in plan.spaces.items()
        },
    )
    RunFolder(root).create()
    write_tuning(root, tuning)
    return tuning


def with_chosen(study: Study, tuning: Tuning) -> Study:
    """The study whose contenders have the chosen values."""
    contenders = {
        label: with_values(config, tuning.contenders[label].values)
        for label, config in study.contenders.items()
    }
    return replace(study, contenders=contenders)


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """A configuration with other values of some parameters, by their dotted names."""
    if not values:
        return config
    params = plain(config.method)
    for name, value in values.items():
        params = merged(params, nested(name.split("."), value))
    method: Any = build(type(config.method), params)
    return replace(config, method=method, rounds=method.traits.rounds or config.rounds)


def validation_score(folder: Path, metric: str) -> float | None:
    """All that tuning reads of a finished run: one number of clients' validation parts."""
    run = RunFolder(folder)
    run.check()
    value = run.read_json(RESULT)["validation_metrics"].get(metric)
    return value if isinstance(value, float) and math.isfinite(value) else None


def best_trials(trials: Sequence[Trial], size: int, sign: int) -> list[int]:
    """Who runs on: the contender as it was given, then the best; nobody who failed."""
    able = [trial for trial in trials if trial.mean is not None]
    # the first stays whatever its score, so that in the end it is known what tuning was worth
    able.sort(key=lambda trial: (trial.number != 0, -sign * (trial.mean or 0.0), trial.number))
    return sorted(trial.number for trial in able[:size])


def chosen(trials: Sequence[Trial], sign: int) -> int:
    """The best of those that came furthest; as it was given, where nobody is better or able."""
    able = [trial for trial in trials if trial.mean is not None]
    furthest = max((len(trial.scores) for trial in able), default=0)
    last = [trial for trial in able if len(trial.scores) == furthest]
    best = max(last, key=lambda t: (sign * (t.mean or 0.0), -t.number), default=None)
    return 0 if best is None else best.number


def _run(
    plan: TuningPlan,
    trials: Mapping[str, list[Trial]],
    numbers: Mapping[str, Sequence[int]],
    seed: int,
    root: Path,
    run_all: RunAll,
) -> None:
    """Run trials on one seed, all contenders together, and note their scores in `trials`."""
    places = {
        f"{label}/trial-{number:02}": (label, number)
        for label, own in numbers.items()
        for number in own
    }
    contenders = {}
    for place, (label, number) in places.items():
        config = with_values(plan.study.contenders[label], trials[label][number].values)
        assert config.rounds is not None
        # nobody looks at the test between rounds
        contenders[place] = replace(config, seed=seed, evaluate_every=config.rounds)
    about = Study(TRIALS, contenders, (seed,), plan.study.stated, plan.metric)
    failures = {failure.contender: failure for failure in run_all(about, root / TRIALS)}
    for place, (label, number) in places.items():
        own, score, why = trials[label][number], None, ""
        if place in failures:
            why = f"{failures[place].error}: {failures[place].message}"
        else:
            score = validation_score(root / TRIALS / place / f"seed-{seed}", plan.metric)
            if score is None:
                why = f"no {find_metric(plan.metric).words} could be measured on validation data"
        scores = own.scores if score is None else (*own.scores, score)
        trials[label][number] = replace(own, scores=scores, failure=why)


def _as_given(plan: TuningPlan, label: str) -> Trial:
    method = plan.study.contenders[label].method
    return Trial(0, {name: value_of(method, name) for name in plan.spaces[label]})


def _given(config: RunConfig, texts: Sequence[str], called: str) -> dict[str, Space]:
    """Spaces that the user gives for parameters that this contender has."""
    found: dict[str, Space] = {}
    for text in texts:
        name, space = parse_space(text, called)
        if name in _names(config):
            found[name] = space.like(value_of(config.method, name))
    return found


def _declared(config: RunConfig) -> dict[str, Space]:
    """What the algorithm says of itself, but for values that the user has set."""
    info = ALGORITHMS.get(config.algorithm)
    usual = config.method
    if info is not None:
        usual = build(type(config.method), info.preset)
    elif all(not _is_required(field) for field in dataclasses.fields(config.method)):
        usual = type(config.method)()
    known = {row[0] for row in describe(type(usual), usual=usual)}
    return {
        name: space
        for name, space in declared_spaces(config.method).items()
        # a part of another class than usual has values that are its own
        if name not in known or value_of(config.method, name) == value_of(usual, name)
    }


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _check(label: str, config: RunConfig, spaces: Mapping[str, Space], called: str) -> None:
    """Refuse spaces with values that the algorithm would refuse."""
    problems: list[str] = []
    for name, space in spaces.items():
        for value in space.ends():
            found: list[str] = []
            with gather(found):
                with_values(config, {name: value})
            problems += [f"{called} {name}={space} of {label}: {why}" for why in found]
    if problems:
        raise ConfigError(problems)


def _unused(study: Study, texts: Sequence[str]) -> list[str]:
    """Spaces for parameters that nobody has whom they are meant for."""
    problems: list[str] = []
    for text in texts:
        reached = {}
        with gather([]):  # told already
            for label, config in study.contenders.items():
                if texts_for(label, study.contenders, [text], "--space"):
                    reached[label] = config
            own = texts_for(next(iter(reached)), study.contenders, [text], "--space")[0]
            name, _ = parse_space(own)
            known = {n for config in reached.values() for n in _names(config)}
            if name not in known:
                problems.append(unknown_name("parameter", name, known))
    return problems


def _names(config: RunConfig) -> list[str]:
    return [row[0] for row in describe(type(config.method), usual=config.method)]


def _metric(study: Study) -> str:
    """The study's own; of one that is about clients' test parts, there is no validation score."""
    asked = find_metric(study.metric or DEFAULT)
    return DEFAULT if asked.over_clients else asked.name


def _seeds(study: Study, trials: int) -> tuple[int, ...]:
    count = len(halvings(trials))
    free = (seed for seed in range(FIRST_SEED, FIRST_SEED + 10**9) if seed not in study.seeds)
    return tuple(next(free) for _ in range(count))


def _seed(study: Study) -> int:
    """What decides the search."""
    return study.seeds[0]
