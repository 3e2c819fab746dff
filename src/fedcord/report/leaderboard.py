"""The comparison itself: one row per algorithm, paired against the best.

Only seeds count that every algorithm has finished or failed, so an unfinished study stays paired. A
row is over those of them it has finished, and two rows are compared over the seeds both have:
without failures these are all, and the difference of two means is the mean of the paired
differences. An algorithm that failed on a seed ranks below all that did not, since its mean leaves
out what was too hard for it. The numbers are final-checkpoint test accuracies; a maximum over
rounds would select on the test set and is not computed anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from fedcord.core.errors import CheckpointError
from fedcord.report.caveats import caveats, failed_runs, left_out
from fedcord.report.chosen_runs import (
    common_seeds,
    ended_by_name,
    result_of,
    with_the_same_clients,
)
from fedcord.report.constant import ConstantAnswer, constant_answer
from fedcord.report.load import Failure, Run
from fedcord.report.numbers import counted
from fedcord.report.subject import same_data
from fedcord.report.training import DID_NOT_TRAIN, untrained_seeds
from fedcord.statistics import (
    MeanInterval,
    Outcome,
    PairedDifference,
    holm,
    pair,
    paired_difference,
    share_interval,
)

PAIR_SETTINGS = ("subset", "longtail", "validation", "test")
"""Settings in which two rows must agree beside data and partition, whose hashes are compared. What
remains, such as model and rounds, may be a contender's own."""


@dataclass(frozen=True)
class Row:
    """One algorithm.

    Attributes:
        name: as the run folders name it.
        seeds: [n] those of the board's it has finished.
        failures: why it did not finish the others.
        untrained: seeds on which it did not train; see `training`.
        values: [n] final test accuracies in the order of its seeds.
        accuracy: their mean and interval.
        balanced: [n] balanced accuracies; None where a run did not measure it.
        difference: this algorithm minus the best, paired over the seeds both have; None for the
            best itself, and where there is no such seed.
        p_holm: p of the paired t test after Holm's correction over all pairs of algorithms; None
            for the best and where no test was possible.
        client_accuracy: mean over seeds of the mean accuracy over clients.
        worst_client: mean over seeds of the worst client's accuracy.
        per_group: by kind of group (such as "domain") and part of it the accuracies [n] on that
            part, in the order of its seeds.
        bytes_up: per run, from all clients to the server, mean over seeds.
        bytes_down: per run, from the server to all clients, mean over seeds.
        seconds: per run, mean over seeds.
        num_refused: updates refused on arrival, over all seeds.
        runs: the runs behind it, in the order of its seeds.
    """

    name: str
    seeds: tuple[int, ...]
    failures: tuple[Failure, ...]
    untrained: tuple[int, ...]
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

    @property
    def mark(self) -> str:
        """What must stand beside its name wherever it is compared; empty for most."""
        marks = []
        if self.untrained:
            some = f" on {len(self.untrained)} of {counted(len(self.seeds), 'seed')}"
            marks.append(DID_NOT_TRAIN + some * (len(self.untrained) < len(self.seeds)))
        if self.failures:
            tried = counted(len(self.seeds) + len(self.failures), "seed")
            marks.append(f"failed on {len(self.failures)} of {tried}")
        return ", ".join(marks)

    @property
    def label(self) -> str:
        """Its name with the mark."""
        return f"{self.name} ({self.mark})" if self.mark else self.name

    @property
    def num_seeds(self) -> str:
        """How many seeds its numbers are over, of how many it was tried on."""
        tried = len(self.seeds) + len(self.failures)
        return f"{len(self.seeds)} of {tried}" if self.failures else str(tried)

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, accuracies as shares."""
        return {
            "algorithm": self.name,
            "seeds": list(self.seeds),
            "failures": [asdict(failure) for failure in self.failures],
            "did_not_train": list(self.untrained),
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
class Failed:
    """An algorithm without a result on any seed.

    Attributes:
        name: as the run folders name it.
        failures: one for each seed.
    """

    name: str
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class Leaderboard:
    """Algorithms by mean final accuracy, best first; behind them those that failed on a seed.

    Attributes:
        rows: at least one.
        seeds: those every algorithm has finished or failed.
        num_comparisons: how many tests Holm's correction counted.
        notes: what was left out and why, and what else to know before reading the numbers.
        failed: algorithms without any result.
    """

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    num_comparisons: int
    notes: tuple[str, ...]
    failed: tuple[Failed, ...] = ()

    @property
    def best(self) -> Row:
        """The row with the highest mean."""
        return self.rows[0]

    @property
    def dataset(self) -> str:
        """What everybody learnt."""
        return str(self.best.runs[0].config.get("dataset"))

    @property
    def floor(self) -> ConstantAnswer | None:
        """What a model that has learnt nothing would reach."""
        return constant_answer(self.best.runs[0])

    @property
    def marks(self) -> tuple[str, ...]:
        """Who did not train or failed, for tables in which several boards stand together."""
        marks = [f"{row.name} {row.mark}" for row in self.rows if row.mark]
        return (*marks, *(f"{own.name} failed on every seed" for own in self.failed))

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, unrounded; null where a number does not exist."""
        return {
            "seeds": list(self.seeds),
            "best": self.best.name,
            "rows": [row.to_json() for row in self.rows],
            "failed": [asdict(own) for own in self.failed],
            "chance": None if self.floor is None else self.floor.chance,
            "majority": None if self.floor is None else self.floor.majority,
            "num_comparisons": self.num_comparisons,
            "method": self.method,
            "notes": list(self.notes),
        }

    @property
    def method(self) -> str:
        """What the numbers are, in words that belong under every table."""
        text = (
            "Test accuracy of the final checkpoint in %, mean over "
            f"{counted(self.best.accuracy.n, 'seed')} with 95 % interval (Student t on the logit "
            "scale, which stays within 0 to 100 %); never a maximum over rounds."
        )
        if len(self.rows) > 1:
            text += (
                " Differences are paired by seed, data and partition, in percentage points, to the "
                "highest mean, with 95 % Student-t interval; p is from the paired t test"
            )
            text += (
                f", with Holm's correction for {self.num_comparisons} comparisons (all pairs, "
                "because the best was picked from these same results)."
                if self.num_comparisons > 1
                else "."
            )
        if any(row.failures for row in self.rows):
            text += " Where a method failed on a seed, comparisons are over the seeds both have."
        return text


def marks_by_study(boards: Sequence[Leaderboard], titles: Sequence[str]) -> tuple[str, ...]:
    """The marks of boards that stand together, each with its title."""
    named = zip(boards, titles, strict=True)
    return tuple(f"{title}: {mark}" for board, title in named for mark in board.marks)


def over_shared_seeds(
    first: Row, second: Row, what: Literal["values", "balanced"] = "values"
) -> tuple[list[float], list[float]]:
    """Two rows' numbers on the seeds both have finished, in the same order."""
    by_seed = [dict(zip(row.seeds, getattr(row, what), strict=True)) for row in (first, second)]
    shared = sorted(by_seed[0].keys() & by_seed[1].keys())
    return [by_seed[0][seed] for seed in shared], [by_seed[1][seed] for seed in shared]


def leaderboard(runs: Sequence[Run]) -> Leaderboard:
    """Compare algorithms by their finished runs.

    Raises:
        PairingError: when runs differ in more than the algorithm, or share no seed.
        CheckpointError: when no run is finished.
    """
    kept, left_out_forgotten = with_the_same_clients(runs)
    by_name = ended_by_name(kept)
    seeds = common_seeds(by_name)
    finished = {
        name: tuple(own[seed] for seed in seeds if own[seed].is_finished)
        for name, own in by_name.items()
    }
    failures = {
        name: tuple(f for seed in seeds if (f := own[seed].failure) is not None)
        for name, own in by_name.items()
    }
    chosen = {name: own for name, own in finished.items() if own}
    if not chosen:
        said = " ".join(failed_runs(failures, finished))
        raise CheckpointError(f"every run failed, so there is nothing to compare. {said}")
    means = {n: float(np.mean([result_of(r).accuracy for r in own])) for n, own in chosen.items()}
    order = sorted(chosen, key=lambda name: (-len(chosen[name]), -means[name], name))
    differences = {
        (first, second): difference
        for first, second in itertools.combinations(order, 2)
        if (difference := _difference(second, chosen[second], first, chosen[first])) is not None
    }
    adjusted = dict(zip(differences, holm([d.t_p for d in differences.values()]), strict=True))
    best = order[0]
    rows = tuple(
        _row(
            name,
            chosen[name],
            failures[name],
            differences.get((best, name)),
            adjusted.get((best, name)),
        )
        for name in order
    )
    return Leaderboard(
        rows,
        seeds,
        num_comparisons=sum(d.t_p is not None for d in differences.values()),
        notes=(
            *left_out(kept, by_name, seeds),
            *failed_runs(failures, finished),
            *left_out_forgotten,
            *caveats(chosen),
        ),
        failed=tuple(Failed(n, failures[n]) for n in sorted(finished) if not finished[n]),
    )


def _difference(
    name: str, runs: Sequence[Run], best: str, best_runs: Sequence[Run]
) -> PairedDifference | None:
    """Paired over the seeds both have; None where there is none."""
    shared = {run.seed for run in runs} & {run.seed for run in best_runs}
    if not shared:
        return None
    pairs = pair(
        [_outcome(run) for run in runs if run.seed in shared],
        [_outcome(run) for run in best_runs if run.seed in shared],
        names=(name, best),
    )
    return paired_difference(pairs.first, pairs.second)


def _row(
    name: str,
    runs: tuple[Run, ...],
    failures: tuple[Failure, ...],
    difference: PairedDifference | None,
    p_holm: float | None,
) -> Row:
    results = [result_of(run) for run in runs]
    values = tuple(result.accuracy for result in results)
    balanced = tuple(r.balanced_accuracy for r in results if r.balanced_accuracy is not None)
    client_means = [r.client_accuracy_mean for r in results if r.client_accuracy_mean is not None]
    worst = [min(r.client_accuracy) for r in results if r.client_accuracy]
    return Row(
        name=name,
        seeds=tuple(run.seed for run in runs),
        failures=failures,
        untrained=untrained_seeds(runs),
        values=values,
        accuracy=share_interval(values),
        balanced=balanced if len(balanced) == len(runs) else None,
        difference=difference,
        p_holm=p_holm,
        client_accuracy=_mean_if_complete(client_means, len(runs)),
        worst_client=_mean_if_complete(worst, len(runs)),
        per_group=_by_part([result.per_group for result in results]),
        bytes_up=float(np.mean([result.bytes_up for result in results])),
        bytes_down=float(np.mean([result.bytes_down for result in results])),
        seconds=float(np.mean([result.seconds for result in results])),
        num_refused=sum(len(entry.refused) for run in runs for entry in run.metrics),
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


def _outcome(run: Run) -> Outcome:
    result = result_of(run)
    settings = {key: run.config[key] for key in PAIR_SETTINGS if key in run.config}
    settings["subset"] = run.config.get("subset", "none")
    if "dataset" in run.config:
        settings["dataset"] = same_data(run.config["dataset"])
    return Outcome(run.seed, result.partition_hash, result.accuracy, run.data_hash, settings)
