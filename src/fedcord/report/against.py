"""Every algorithm against one that was named beforehand.

The leaderboard compares with the best, which was picked from the same results, so it has to correct
for all pairs. A baseline that was named before has no such advantage: only the comparisons with it
are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.metrics.registry import Metric
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import counted, p_value
from fedcord.report.row import Row, over_shared_seeds
from fedcord.report.scores import (
    gap_heading,
    score,
    score_cell_bracket,
    score_gap,
    score_heading,
)
from fedcord.report.tables import pipe_table
from fedcord.statistics import PairedDifference, holm, paired_difference

LEVEL = 0.05
"""Corrected p below this is called a difference."""


@dataclass(frozen=True)
class Versus:
    """One algorithm minus the baseline.

    Attributes:
        row: the algorithm's.
        difference: paired by seed.
        p_holm: of the paired t test, corrected for all comparisons with the baseline.
    """

    row: Row
    difference: PairedDifference
    p_holm: float | None

    @property
    def finding(self) -> str:
        """What these seeds show, in one or two words."""
        return in_words(self.difference.mean, self.p_holm, self.row.metric)


@dataclass(frozen=True)
class Against:
    """All comparisons with one baseline, in the order of the leaderboard.

    Attributes:
        baseline: its row.
        others: the comparisons, each over the seeds both have.
        marks: who did not train or failed.
    """

    baseline: Row
    others: tuple[Versus, ...]
    marks: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """A pipe table with what it is below."""
        metric = self.baseline.metric
        minus = gap_heading(f"minus {self.baseline.name}", metric)
        head = ("algorithm", score_heading(metric), minus, "95 % interval")
        mean = score(self.baseline.score.mean, metric)
        rows = [[self.baseline.label, mean, "baseline", "", "", ""]]
        rows += [
            [
                own.row.label,
                score(own.row.score.mean, metric),
                score_gap(own.difference.mean, metric),
                score_cell_bracket(own.difference.interval, metric),
                p_value(own.p_holm),
                own.finding,
            ]
            for own in self.others
        ]
        table = pipe_table([*head, "p (Holm)", "these seeds show"], rows)
        seeds = counted(self.baseline.score.n, "seed")
        tested = sum(own.p_holm is not None for own in self.others)
        units = ", in percentage points" if metric.is_share else ""
        below = (
            f"Final test {metric.words}, mean over {seeds}; differences paired by seed, data and "
            f"partition{units}, with 95 % Student-t interval; p of the paired t test "
            f"with Holm's correction for {counted(tested, 'comparison')} with "
            f"{self.baseline.name}. 'not shown' does not mean equal: it means that {seeds} cannot "
            "tell."
        )
        return "\n\n".join([table, below, *(f"Note: {mark}." for mark in self.marks)]) + "\n"


def in_words(difference: float, p_holm: float | None, metric: Metric) -> str:
    """What a mean difference shows once p is corrected."""
    if p_holm is None or p_holm >= LEVEL:
        return "not shown"
    return "better" if metric.sign * difference > 0 else "worse"


def against(board: Leaderboard, name: str) -> Against:
    """Compare every row with the row called `name`."""
    by_name = {row.name: row for row in board.rows}
    if name not in by_name:
        raise ConfigError(unknown_name("--against", name, by_name))
    baseline = by_name[name]
    others = [row for row in board.rows if row is not baseline]
    if not others:
        raise ConfigError(f"--against '{name}': there is no other algorithm to compare with it.")
    pairs = {row.name: over_shared_seeds(row, baseline) for row in others}
    compared = [row for row in others if pairs[row.name][0]]
    differences = [paired_difference(*pairs[row.name]) for row in compared]
    adjusted = holm([difference.t_p for difference in differences])
    return Against(
        baseline,
        tuple(Versus(*each) for each in zip(compared, differences, adjusted, strict=True)),
        board.marks,
    )
