"""Every algorithm against one that was named beforehand.

The leaderboard compares with the best, which was picked from the same results, so it has to correct
for all pairs. A baseline that was named before has no such advantage: only the comparisons with it
are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.report.leaderboard import Leaderboard, Row, over_shared_seeds
from fedcord.report.numbers import cell_bracket, counted, p_value, percent, points
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
        return in_words(self.difference, self.p_holm)


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
        head = ("algorithm", "accuracy %", f"minus {self.baseline.name}, points", "95 % interval")
        rows = [[self.baseline.label, percent(self.baseline.accuracy.mean), "baseline", "", "", ""]]
        rows += [
            [
                own.row.label,
                percent(own.row.accuracy.mean),
                points(own.difference.mean),
                cell_bracket(own.difference.interval),
                p_value(own.p_holm),
                own.finding,
            ]
            for own in self.others
        ]
        table = pipe_table([*head, "p (Holm)", "these seeds show"], rows)
        seeds = counted(self.baseline.accuracy.n, "seed")
        below = (
            f"Final test accuracy, mean over {seeds}; differences paired by seed, data and "
            "partition, in percentage points, with 95 % Student-t interval; p of the paired t test "
            f"with Holm's correction for {counted(len(self.others), 'comparison')} with "
            f"{self.baseline.name}. 'not shown' does not mean equal: it means that {seeds} cannot "
            "tell."
        )
        return "\n\n".join([table, below, *(f"Note: {mark}." for mark in self.marks)]) + "\n"


def in_words(difference: PairedDifference, p_holm: float | None) -> str:
    """What a difference shows once p is corrected."""
    if p_holm is None or p_holm >= LEVEL:
        return "not shown"
    return "better" if difference.mean > 0 else "worse"


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
