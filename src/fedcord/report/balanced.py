"""Balanced accuracy: the mean over classes of the share of each that is recognised.

Where the test set has as many examples of every class it is the accuracy itself and is not shown
again. Elsewhere accuracy can be high for a method that knows nothing but the largest class.
"""

from __future__ import annotations

from fedcord.report.leaderboard import Leaderboard, Row, over_shared_seeds
from fedcord.report.numbers import NOTHING, cell_bracket, percent, points
from fedcord.statistics import paired_difference, share_interval

ROUNDING = 1e-9

TITLE = "Balanced accuracy, %"
EXPLANATION = (
    "The mean over classes of the share of each that is recognised, beside the accuracy because "
    "the test set does not have as many examples of every class; 95 % intervals of means are "
    "Student t on the logit scale, of differences plain Student t."
)


def is_worth_showing(board: Leaderboard) -> bool:
    """Whether it is known of every method, and test classes are unequal.

    Older runs did not count test examples; for them it is worth showing where it differs from the
    accuracy.
    """
    if not all(row.balanced is not None for row in board.rows):
        return False
    floor = board.floor
    if floor is not None and floor.is_exact:
        return floor.is_unequal
    gaps = [
        abs(own - plain)
        for row in board.rows
        if row.balanced is not None
        for own, plain in zip(row.balanced, row.values, strict=True)
    ]
    return max(gaps) > ROUNDING


def floor_sentence(board: Leaderboard) -> str:
    """What a constant answer would reach; empty where test classes are equal or unknown."""
    floor = board.floor
    return floor.sentence if floor is not None and floor.is_unequal else ""


def balanced_table(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, in the order of the leaderboard and paired with its first row."""
    head = ["algorithm", "balanced accuracy %", "95 % interval"]
    if len(board.rows) > 1:
        head += [f"minus {board.best.name}, points", "95 % interval"]
    return head, [_cells(row, board) for row in board.rows]


def _cells(row: Row, board: Leaderboard) -> list[str]:
    assert row.balanced is not None  # or the table would not be shown
    own = share_interval(row.balanced)
    cells = [row.label, percent(own.mean), cell_bracket(own)]
    if len(board.rows) == 1:
        return cells
    if row is board.best:
        return [*cells, NOTHING, NOTHING]
    ours, theirs = over_shared_seeds(row, board.best, "balanced")
    if not ours:
        return [*cells, NOTHING, NOTHING]
    difference = paired_difference(ours, theirs)
    return [*cells, points(difference.mean), cell_bracket(difference.interval)]
