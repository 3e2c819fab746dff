"""The comparison itself: one row per algorithm, paired against the best.

Only seeds that every algorithm has finished count, so each mean is over the same problems and the
difference of two means is the mean of the paired differences. The numbers are final-checkpoint test
accuracies; a maximum over rounds would select on the test set and is not computed anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcord.core.errors import CheckpointError, PairingError
from fedcord.report.load import Result, Run
from fedcord.report.numbers import counted, listed
from fedcord.statistics import (
    MeanInterval,
    Outcome,
    PairedDifference,
    holm,
    mean_interval,
    pair,
    paired_difference,
)

SHARED_SETTINGS = (
    "algorithm",
    "dataset",
    "partition",
    "clients",
    "rounds",
    "model",
    "participation",
    "subset",
    "longtail",
    "params",
)
"""Settings in which the seeds of one row must agree, or they are not repetitions of one thing."""


@dataclass(frozen=True)
class Row:
    """One algorithm.

    Attributes:
        name: as the run folders name it.
        values: [n] final test accuracies in the order of the board's seeds.
        accuracy: their mean and interval.
        balanced: [n] balanced accuracies; None where a run did not measure it.
        difference: this algorithm minus the best, paired; None for the best itself.
        p_holm: p of the paired t test after Holm's correction over all pairs of algorithms; None
            for the best and where no test was possible.
        client_accuracy: mean over seeds of the mean accuracy over clients.
        worst_client: mean over seeds of the worst client's accuracy.
        per_group: by kind of group (such as "domain") and part of it the accuracies [n] on that
            part, in the order of the board's seeds.
        bytes_up: per run, from all clients to the server, mean over seeds.
        bytes_down: per run, from the server to all clients, mean over seeds.
        seconds: per run, mean over seeds.
        num_refused: updates refused on arrival, over all seeds.
        runs: the runs behind it, in the order of the board's seeds.
    """

    name: str
    values: tuple[float, ...]
    accuracy: MeanInterval
    balanced: tuple[float, ...] | None
    difference: PairedDifference | None
    p_holm: float | None
    client_accuracy: float | None
    worst_client: float | None
    per_group: Mapping[str, Mapping[str, tuple[float, ...]]]
    bytes_up: float
    bytes_down: float
    seconds: float
    num_refused: int
    runs: tuple[Run, ...]

    @property
    def num_bytes(self) -> float:
        """All traffic of one run."""
        return self.bytes_up + self.bytes_down

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, accuracies as shares."""
        return {
            "algorithm": self.name,
            "accuracy": asdict(self.accuracy),
            "accuracies": list(self.values),
            "balanced_accuracies": None if self.balanced is None else list(self.balanced),
            "difference": None if self.difference is None else asdict(self.difference),
            "p_holm": self.p_holm,
            "client_accuracy_mean": self.client_accuracy,
            "worst_client_accuracy": self.worst_client,
            **{
                f"per_{kind}": {part: float(np.mean(values)) for part, values in parts.items()}
                for kind, parts in self.per_group.items()
            },
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
            "refused": self.num_refused,
        }


@dataclass(frozen=True)
class Leaderboard:
    """Algorithms by mean final accuracy, best first.

    Attributes:
        rows: at least one.
        seeds: those every row has.
        num_comparisons: how many tests Holm's correction counted.
        notes: what was left out and why.
    """

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    num_comparisons: int
    notes: tuple[str, ...]

    @property
    def best(self) -> Row:
        """The row with the highest mean."""
        return self.rows[0]

    @property
    def dataset(self) -> str:
        """What everybody learnt."""
        return str(self.best.runs[0].config.get("dataset"))

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, unrounded; null where a number does not exist."""
        return {
            "seeds": list(self.seeds),
            "best": self.best.name,
            "rows": [row.to_json() for row in self.rows],
            "num_comparisons": self.num_comparisons,
            "method": self.method,
            "notes": list(self.notes),
        }

    @property
    def method(self) -> str:
        """What the numbers are, in words that belong under every table."""
        text = (
            "Test accuracy of the final checkpoint in %, mean over "
            f"{counted(self.best.accuracy.n, 'seed')} with 95 % Student-t interval; never a "
            "maximum over rounds."
        )
        if len(self.rows) > 1:
            text += (
                " Differences are paired by seed and partition, in percentage points, to the "
                "highest mean; p is from the paired t test"
            )
            text += (
                f", with Holm's correction for {self.num_comparisons} comparisons (all pairs, "
                "because the best was picked from these same results)."
                if self.num_comparisons > 1
                else "."
            )
        return text


def leaderboard(runs: Sequence[Run]) -> Leaderboard:
    """Compare algorithms by their finished runs.

    Raises:
        PairingError: when runs differ in more than the algorithm, or share no seed.
        CheckpointError: when no run is finished.
    """
    by_name = _finished_by_name(runs)
    seeds = _common_seeds(by_name)
    chosen = {name: tuple(own[seed] for seed in seeds) for name, own in by_name.items()}
    values = {name: tuple(_result(run).accuracy for run in own) for name, own in chosen.items()}
    order = sorted(chosen, key=lambda name: (-float(np.mean(values[name])), name))
    outcomes = {name: [_outcome(run) for run in own] for name, own in chosen.items()}
    pairs = {
        (first, second): pair(outcomes[second], outcomes[first], names=(second, first))
        for first, second in itertools.combinations(order, 2)
    }
    differences = {key: paired_difference(p.first, p.second) for key, p in pairs.items()}
    adjusted = dict(zip(differences, holm([d.t_p for d in differences.values()]), strict=True))
    best = order[0]
    rows = tuple(
        _row(name, chosen[name], differences.get((best, name)), adjusted.get((best, name)))
        for name in order
    )
    num_comparisons = sum(d.t_p is not None for d in differences.values())
    return Leaderboard(rows, seeds, num_comparisons, _notes(runs, by_name, seeds))


def _finished_by_name(runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    by_name: dict[str, dict[int, Run]] = {}
    for run in runs:
        if not run.is_finished:
            continue
        own = by_name.setdefault(run.name, {})
        if run.seed in own:
            raise PairingError(
                f"{run.name} has two runs for seed {run.seed}: {own[run.seed].folder} and "
                f"{run.folder}; keep one of them, or report the folders separately."
            )
        for other in itertools.islice(own.values(), 1):
            for key in SHARED_SETTINGS:
                if run.config.get(key) != other.config.get(key):
                    raise PairingError(
                        f"the runs of {run.name} differ in '{key}': seed {other.seed} has "
                        f"{other.config.get(key)}, seed {run.seed} has {run.config.get(key)}; the "
                        "seeds of one row must repeat one setting: report them separately."
                    )
        own[run.seed] = run
    if not by_name:
        raise CheckpointError(
            f"none of {counted(len(runs), 'run')} is finished, so there is nothing to compare; "
            "continue with --resume."
        )
    return by_name


def _common_seeds(by_name: Mapping[str, Mapping[int, Run]]) -> tuple[int, ...]:
    common = sorted(set.intersection(*(set(own) for own in by_name.values())))
    if not common:
        having = "; ".join(
            f"{name} has {', '.join(map(str, sorted(own)))}" for name, own in by_name.items()
        )
        raise PairingError(
            f"no seed is finished by every algorithm: {having}; run all of them on the same seeds."
        )
    return tuple(common)


def _notes(
    runs: Sequence[Run], by_name: Mapping[str, Mapping[int, Run]], seeds: tuple[int, ...]
) -> tuple[str, ...]:
    notes: list[str] = []
    for run in runs:
        if not run.is_finished:
            done = counted(len(run.metrics), "round")
            notes.append(
                f"{run.name}, seed {run.seed}, is unfinished ({done} recorded) and left out; "
                "continue it with --resume."
            )
    for seed in sorted({seed for own in by_name.values() for seed in own} - set(seeds)):
        missing = sorted(name for name, own in by_name.items() if seed not in own)
        notes.append(f"Seed {seed} is left out everywhere: {listed(missing)} did not finish it.")
    return tuple(notes)


def _row(
    name: str, runs: tuple[Run, ...], difference: PairedDifference | None, p_holm: float | None
) -> Row:
    results = [_result(run) for run in runs]
    values = tuple(result.accuracy for result in results)
    balanced = tuple(r.balanced_accuracy for r in results if r.balanced_accuracy is not None)
    client_means = [r.client_accuracy_mean for r in results if r.client_accuracy_mean is not None]
    worst = [min(r.client_accuracy) for r in results if r.client_accuracy]
    return Row(
        name=name,
        values=values,
        accuracy=mean_interval(values),
        balanced=balanced if len(balanced) == len(runs) else None,
        difference=difference,
        p_holm=p_holm,
        client_accuracy=_mean_if_complete(client_means, len(runs)),
        worst_client=_mean_if_complete(worst, len(runs)),
        per_group=_by_part([result.per_group for result in results]),
        bytes_up=float(np.mean([result.bytes_up for result in results])),
        bytes_down=float(np.mean([result.bytes_down for result in results])),
        seconds=float(np.mean([result.seconds for result in results])),
        num_refused=sum(entry.num_refused for run in runs for entry in run.metrics),
        runs=runs,
    )


def _by_part(
    groups: Sequence[Mapping[str, Mapping[str, float]]],
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Accuracies of all seeds on the parts that every seed has."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind in sorted(set.intersection(*(set(own) for own in groups))):
        parts = sorted(set.intersection(*(set(own[kind]) for own in groups)))
        found[kind] = {part: tuple(own[kind][part] for own in groups) for part in parts}
    return found


def _mean_if_complete(values: Sequence[float], num_runs: int) -> float | None:
    # a mean over some of the seeds would stand beside means over all of them
    return float(np.mean(values)) if len(values) == num_runs else None


def _result(run: Run) -> Result:
    assert run.result is not None  # only finished runs come here
    return run.result


def _outcome(run: Run) -> Outcome:
    result = _result(run)
    return Outcome(run.seed, result.partition_hash, result.accuracy)
