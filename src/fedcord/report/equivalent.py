"""Whether methods are as good in one setting as in another, such as at two skews of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError, PairingError
from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run
from fedcord.report.numbers import counted, listed, p_value
from fedcord.report.row import Row, over_shared_seeds, shared_seeds
from fedcord.report.scores import gap_heading, score, score_cell_bracket, score_gap
from fedcord.report.tables import pipe_table
from fedcord.statistics import Equivalence, equivalence, without_rounding


@dataclass(frozen=True)
class EquivalentRow:
    """One algorithm in the second setting minus itself in the first.

    Attributes:
        name: the algorithm's.
        first: mean over data sets in the first setting, of the seeds that both settings have.
        second: likewise in the second.
        by_dataset: mean difference on each data set.
        found: over all data sets.
        is_same: no seed of any data set differs by more than rounding: there is nothing to test.
    """

    name: str
    first: float
    second: float
    by_dataset: tuple[float, ...]
    found: Equivalence
    is_same: bool

    @property
    def verdict(self) -> str:
        """In two or three words."""
        if self.is_same:
            return "equal in all seeds"
        return "equivalent" if self.found.is_shown else "not shown"


@dataclass(frozen=True)
class Equivalent:
    """All algorithms that every study has, the smallest difference first.

    Attributes:
        metric: name of what is compared.
        margin: what is called no difference, in points of a share, else in the metric's unit.
        titles: of the first and the second setting's studies, in pairs.
        datasets: of the pairs.
        rows: the algorithms.
    """

    metric: str
    margin: float
    titles: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...]
    rows: tuple[EquivalentRow, ...]

    def to_markdown(self) -> str:
        """A pipe table with what it is below."""
        metric = METRICS[self.metric]
        unit = " points" if metric.is_share else ""
        head = ["algorithm", "first", "second", *self.datasets]
        head += [gap_heading("second minus first", metric), "90 % interval", "p"]
        rows = [
            [
                own.name,
                score(own.first, metric),
                score(own.second, metric),
                *(score_gap(gap, metric) for gap in own.by_dataset),
                score_gap(own.found.mean, metric),
                score_cell_bracket(own.found.interval, metric),
                p_value(own.found.p),
                own.verdict,
            ]
            for own in self.rows
        ]
        table = pipe_table([*head, f"within ±{self.margin:g}{unit}"], rows)
        pairs = listed([f"{first} and {second}" for first, second in self.titles])
        below = (
            f"Final test {metric.words}, every algorithm with itself: {pairs}. Paired by seed, "
            f"mean over {counted(len(self.datasets), 'data set')} of equal weight; p is the larger "
            "of two one-sided t tests, and 'equivalent' that it is below 0.05: the 90 % interval "
            "then lies within the margin. p is not corrected for the number of algorithms. 'not "
            "shown' does not mean different."
        )
        return f"{table}\n\n{below}\n"


def equivalent(boards: Sequence[Leaderboard], titles: Sequence[str], margin: float) -> Equivalent:
    """Compare every algorithm with itself in two studies of each data set.

    Args:
        boards: of two studies of each data set, the first setting's before the second's.
        titles: of the studies.
        margin: in points where the metric is a share.
    """
    pairs = _paired(boards)
    names = sorted(set.intersection(*({row.name for row in board.rows} for board in boards)))
    if not names:
        raise ConfigError("--equivalent: no algorithm is in every study.")
    metric = boards[0].metric
    scale = 100 if metric.is_share else 1
    rows = []
    for name in names:
        own = [(_row(boards[first], name), _row(boards[second], name)) for first, second in pairs]
        for first, second in own:
            _check_pair(first, second)
        scores = [np.array(over_shared_seeds(first, second)) for first, second in own]
        # of the scores, not of their differences: what is only rounding must not become a test
        size = max(float(np.abs(both).max()) for both in scores)
        strata = [without_rounding(ours - theirs, size).tolist() for theirs, ours in scores]
        before, after = np.mean([both.mean(axis=1) for both in scores], axis=0).tolist()
        gaps = tuple(float(np.mean(each)) for each in strata)
        found = equivalence(strata, margin / scale, size)
        is_same = not any(map(any, strata))
        rows.append(EquivalentRow(name, before, after, gaps, found, is_same))
    return Equivalent(
        metric.name,
        margin,
        tuple((titles[first], titles[second]) for first, second in pairs),
        tuple(boards[first].dataset for first, _ in pairs),
        tuple(sorted(rows, key=lambda row: abs(row.found.mean))),
    )


def _paired(boards: Sequence[Leaderboard]) -> list[tuple[int, int]]:
    """Places of the two studies of each data set."""
    places: dict[str, list[int]] = {}
    for place, board in enumerate(boards):
        places.setdefault(board.dataset, []).append(place)
    wrong = [f"{data} has {len(own)}" for data, own in places.items() if len(own) != 2]
    if wrong:
        raise ConfigError(
            f"--equivalent needs two studies of every data set, one of each setting; "
            f"{listed(wrong)}."
        )
    return [(own[0], own[1]) for own in places.values()]


def _row(board: Leaderboard, name: str) -> Row:
    return next(row for row in board.rows if row.name == name)


def _check_pair(first: Row, second: Row) -> None:
    seeds = shared_seeds(first, second)
    if not seeds:
        raise PairingError(
            f"{first.name}: the two studies share no seed; settings are compared by seed, so run "
            "both with the same."
        )
    data = [{run.seed: _examples_of(run) for run in row.runs} for row in (first, second)]
    differ = [seed for seed in seeds if data[0][seed] != data[1][seed]]
    if differ:
        raise PairingError(
            f"{first.name}: for seed {differ[0]} the two studies used different data; a setting "
            "can only be compared with another on the same examples."
        )


def _examples_of(run: Run) -> tuple[object, ...]:
    """What tells whether two runs under one seed had the same examples, whoever held them.

    The hash of the data does not, because it is also of who holds what.
    """
    totals = None if run.partition is None else tuple(run.partition.counts.sum(axis=0).tolist())
    tested = () if run.result is None else tuple(run.result.test_counts)
    return run.config.get("subset"), run.config.get("longtail", 1.0), totals, tested
