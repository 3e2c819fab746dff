"""The comparison itself: one row per algorithm, paired against the best.

Only seeds count that every algorithm has finished or failed, so an unfinished study stays paired. A
row is over those of them it has finished, and two rows are compared over the seeds both have:
without failures these are all, and the difference of two means is the mean of the paired
differences. An algorithm that failed on a seed ranks below all that did not, since its mean leaves
out what was too hard for it. The numbers are of final checkpoints, by one metric; a maximum over
rounds would select on the test set and is not computed anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np

from fedcord.core.errors import CheckpointError
from fedcord.metrics.registry import DEFAULT, METRICS, Metric, find_metric
from fedcord.report.bounds import CEILING, is_bound
from fedcord.report.caveats import caveats, failed_runs, left_out, remarks
from fedcord.report.chosen_runs import (
    common_seeds,
    ended_by_name,
    result_of,
    with_the_same_clients,
)
from fedcord.report.constant import ConstantAnswer, constant_answer
from fedcord.report.cost import mean_cost
from fedcord.report.load import MOST_NAMED, Failure, Result, Run
from fedcord.report.measured import Dispersion
from fedcord.report.notes import Note, gathered
from fedcord.report.numbers import counted
from fedcord.report.planned import StudyPlanned, planned
from fedcord.report.row import Failed, Row
from fedcord.report.scores import interval_words, score_interval
from fedcord.report.subject import same_data
from fedcord.report.training import untrained_seeds
from fedcord.report.tuning import entries_of, tuning_values
from fedcord.statistics import Outcome, PairedDifference, holm, pair, paired_difference

PAIR_SETTINGS = ("subset", "longtail", "validation", "test")
"""Settings in which two rows must agree beside data and partition, whose hashes are compared. What
remains, such as model and rounds, may be a contender's own."""


@dataclass(frozen=True)
class Leaderboard:
    """Algorithms by their mean, best first; behind them those that failed on a seed.

    `centralised` comes last: it has everybody's data, and whoever asks which method is best may not
    move theirs.

    Attributes:
        metric: what they are compared by.
        rows: at least one.
        seeds: those every algorithm has finished or failed.
        num_comparisons: how many tests Holm's correction counted.
        notes: what was left out and why, and what else to know before reading the numbers.
        remarks: what the runs noted by themselves.
        plan: what the study set out to show, and what came of that; None without a plan.
        failed: algorithms without any result.
    """

    metric: Metric
    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    num_comparisons: int
    notes: tuple[str, ...]
    failed: tuple[Failed, ...] = ()
    remarks: tuple[Note, ...] = ()
    plan: StudyPlanned | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes, and one line for each kind of remark."""
        return (*self.notes, *gathered(self.remarks))

    @property
    def best(self) -> Row:
        """The row with the best mean, unless it is the ceiling of others."""
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
            "metric": self.metric.name,
            "higher_is_better": self.metric.is_higher_better,
            "seeds": list(self.seeds),
            "best": self.best.name,
            "rows": [row.to_json() for row in self.rows],
            "failed": [asdict(own) for own in self.failed],
            "chance": None if self.floor is None else self.floor.chance_of(self.metric),
            "majority": None if self.floor is None else self.floor.majority,
            "num_comparisons": self.num_comparisons,
            "method": self.method,
            "notes": list(self.all_notes),
            "tuning": tuning_values(entries_of(self.rows)),
            "plan": None if self.plan is None else self.plan.to_json(),
        }

    @property
    def method(self) -> str:
        """What the numbers are, in words that belong under every table."""
        metric = self.metric
        what = f"Test {metric.words}"
        if metric.over_clients:
            what = f"{metric.title}, each on its own test part,"
        text = (
            f"{what} of the final checkpoint{' in %' if metric.is_share else ''}, mean over "
            f"{counted(self.best.score.n, 'seed')} with 95 % interval ({interval_words(metric)}); "
            "never a maximum over rounds."
        )
        if not metric.is_higher_better:
            text += " Lower is better."
        if len(self.rows) > 1:
            text += (
                f" Differences are paired by seed, data and partition"
                f"{', in percentage points' if metric.is_share else ''}, to the "
                f"{'highest' if metric.is_higher_better else 'lowest'} mean, with 95 % Student-t "
                "interval; p is from the paired t test"
            )
            text += (
                f", with Holm's correction for {self.num_comparisons} comparisons (all pairs, "
                "because the best was picked from these same results)."
                if self.num_comparisons > 1
                else "."
            )
        if len(self.rows) > 1 and is_bound(self.rows[-1].runs, [CEILING]):
            text += f" {self.rows[-1].name} has everybody's data: a ceiling, not ranked."
        if any(row.failures for row in self.rows):
            text += " Where a method failed on a seed, comparisons are over the seeds both have."
        return text


def marks_by_study(boards: Sequence[Leaderboard], titles: Sequence[str]) -> tuple[str, ...]:
    """The marks of boards that stand together, each with its title."""
    named = zip(boards, titles, strict=True)
    return tuple(f"{title}: {mark}" for board, title in named for mark in board.marks)


def leaderboard(runs: Sequence[Run], metric_name: str | None = None) -> Leaderboard:
    """Compare algorithms by their finished runs.

    Args:
        runs: of one comparison.
        metric_name: what to compare by; by default what the runs were asked about, if that is one
            thing, and else the accuracy.

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
    metric = find_metric(metric_name or _asked(chosen))
    _check_measured([run for own in chosen.values() for run in own], metric)
    means = {n: float(np.mean([_value(r, metric) for r in own])) for n, own in chosen.items()}
    ceilings = {n for n, own in chosen.items() if is_bound(own, [CEILING])}
    order = sorted(
        chosen, key=lambda n: (n in ceilings, -len(chosen[n]), -metric.sign * means[n], n)
    )
    differences = {
        (first, second): difference
        for first, second in itertools.combinations(order, 2)
        if (difference := _difference(metric, second, chosen[second], first, chosen[first]))
        is not None
    }
    adjusted = dict(zip(differences, holm([d.t_p for d in differences.values()]), strict=True))
    best = order[0]
    rows = tuple(
        _row(
            metric,
            name,
            chosen[name],
            failures[name],
            differences.get((best, name)),
            adjusted.get((best, name)),
        )
        for name in order
    )
    return Leaderboard(
        metric,
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
        remarks=remarks(chosen),
        plan=planned(runs, rows),
    )


def _difference(
    metric: Metric, name: str, runs: Sequence[Run], best: str, best_runs: Sequence[Run]
) -> PairedDifference | None:
    """Paired over the seeds both have; None where there is none."""
    shared = {run.seed for run in runs} & {run.seed for run in best_runs}
    if not shared:
        return None
    pairs = pair(
        [_outcome(run, metric) for run in runs if run.seed in shared],
        [_outcome(run, metric) for run in best_runs if run.seed in shared],
        names=(name, best),
    )
    return paired_difference(pairs.first, pairs.second)


def _row(
    metric: Metric,
    name: str,
    runs: tuple[Run, ...],
    failures: tuple[Failure, ...],
    difference: PairedDifference | None,
    p_holm: float | None,
) -> Row:
    results = [result_of(run) for run in runs]
    # a mean over some of the seeds would stand beside means over all of them
    known = set.intersection(*(set(result.measured.values) for result in results))
    measured = {
        own: tuple(result.measured.values[own] for result in results)
        for own in METRICS
        if own in known
    }
    return Row(
        name=name,
        seeds=tuple(run.seed for run in runs),
        failures=failures,
        untrained=untrained_seeds(runs),
        metric=metric,
        measured=measured,
        score=score_interval(measured[metric.name], metric),
        difference=difference,
        p_holm=p_holm,
        clients=_over_clients(results),
        per_group=_by_part([result.per_group for result in results]),
        bytes_up=float(np.mean([result.bytes_up for result in results])),
        bytes_down=float(np.mean([result.bytes_down for result in results])),
        seconds=float(np.mean([result.seconds for result in results])),
        cost=mean_cost([result.cost for result in results]),
        constant=_constant(runs, metric),
        num_refused=sum(len(entry.refused) for run in runs for entry in run.metrics),
        runs=runs,
    )


def _constant(runs: Sequence[Run], metric: Metric) -> float | None:
    floors = [constant_answer(run) for run in runs]
    levels = [floor.level_of(metric) for floor in floors if floor is not None and floor.is_exact]
    known = [level for level in levels if level is not None]
    return float(np.mean(known)) if len(known) == len(runs) else None


def _by_part(
    groups: Sequence[Mapping[str, Mapping[str, float]]],
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Accuracies of all seeds on the parts that every seed has."""
    found: dict[str, dict[str, tuple[float, ...]]] = {}
    for kind in sorted(set.intersection(*(set(own) for own in groups))):
        parts = sorted(set.intersection(*(set(own[kind]) for own in groups)))
        found[kind] = {part: tuple(own[kind][part] for own in groups) for part in parts}
    return found


def _over_clients(results: Sequence[Result]) -> dict[str, Dispersion]:
    """Mean over seeds of how clients differ, by the metrics that every seed has."""
    clients = [result.measured.clients for result in results]
    known = set.intersection(*(set(own) for own in clients))
    return {
        name: Dispersion(*np.mean([astuple(own[name]) for own in clients], axis=0).tolist())
        for name in METRICS
        if name in known
    }


def _value(run: Run, metric: Metric) -> float:
    return result_of(run).measured.values[metric.name]


def _asked(runs: Mapping[str, Sequence[Run]]) -> str:
    """The one metric that all runs were asked about; the accuracy where there is no such."""
    asked = {result_of(run).measured.asked for own in runs.values() for run in own}
    return (asked.pop() or DEFAULT) if len(asked) == 1 else DEFAULT


def _check_measured(runs: Sequence[Run], metric: Metric) -> None:
    """Refuse runs that did not measure what is to be compared, by name."""
    lacking = [run for run in runs if metric.name not in result_of(run).measured.values]
    if not lacking:
        return
    every = set.intersection(*(set(result_of(run).measured.values) for run in runs))
    shown = ", ".join(str(run.folder) for run in lacking[:MOST_NAMED])
    more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
    where = "clients have no test parts" if metric.over_clients else "it could not be measured"
    raise CheckpointError(
        f"--metric {metric.name}: not in {shown}{more}; {where}, or an older version did not. "
        f"Run it again with --metric {metric.name}, or choose among what all runs have: "
        f"{', '.join(name for name in METRICS if name in every)}."
    )


def _outcome(run: Run, metric: Metric) -> Outcome:
    result = result_of(run)
    settings = {key: run.config[key] for key in PAIR_SETTINGS if key in run.config}
    settings["subset"] = run.config.get("subset", "none")
    if "dataset" in run.config:
        settings["dataset"] = same_data(run.config["dataset"])
    return Outcome(run.seed, result.partition_hash, _value(run, metric), run.data_hash, settings)
