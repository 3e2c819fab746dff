"""Every algorithm against one that was named beforehand.

The leaderboard compares with the best, which was picked from the same results, so it has to correct
for all pairs. A baseline that was named before has no such advantage: only the comparisons with it
are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.errors import ConfigError, unknown_name
from fedcord.report.leaderboard import Leaderboard, Row
from fedcord.report.markdown import pipe_table
from fedcord.report.numbers import cell_bracket, counted, p_value, percent, points
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
    """All comparisons with one baseline, in the order of the leaderboard."""

    baseline: Row
    others: tuple[Versus, ...]

    def to_markdown(self) -> str:
        """A pipe table with what it is below."""
        head = ("algorithm", "accuracy %", f"minus {self.baseline.name}, points", "95 % interval")
        rows = [[self.baseline.name, percent(self.baseline.accuracy.mean), "baseline", "", "", ""]]
        rows += [
            [
                own.row.name,
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
            f"Final test accuracy, mean over {seeds}; differences paired by seed and partition, in "
            f"percentage points, with 95 % Student-t interval; p of the paired t test with Holm's "
            f"correction for {counted(len(self.others), 'comparison')} with {self.baseline.name}. "
            f"'not shown' does not mean equal: it means that {seeds} cannot tell."
        )
        return f"{table}\n\n{below}\n"


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
    differences = [paired_difference(row.values, baseline.values) for row in others]
    adjusted = holm([difference.t_p for difference in differences])
    compared = zip(others, differences, adjusted, strict=True)
    return Against(baseline, tuple(Versus(*each) for each in compared))
