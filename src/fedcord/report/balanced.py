"""Balanced accuracy: the mean over classes of the share of each that is recognised.

Where the test set has as many examples of every class it is the accuracy itself and is not shown
again. Elsewhere accuracy can be high for a method that knows nothing but the largest class.
"""

from __future__ import annotations

from fedcord.report.leaderboard import Leaderboard, Row
from fedcord.report.numbers import NOTHING, cell_bracket, percent, points
from fedcord.statistics import mean_interval, paired_difference

ROUNDING = 1e-9

TITLE = "Balanced accuracy, %"
EXPLANATION = (
    "The mean over classes of the share of each that is recognised, beside the accuracy because "
    "the test set does not have as many examples of every class."
)


def is_worth_showing(board: Leaderboard) -> bool:
    """Whether it is known of every method and differs from the accuracy for one."""
    gaps = [
        abs(own - plain)
        for row in board.rows
        if row.balanced is not None
        for own, plain in zip(row.balanced, row.values, strict=True)
    ]
    return all(row.balanced is not None for row in board.rows) and max(gaps) > ROUNDING


def balanced_table(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, in the order of the leaderboard and paired with its first row."""
    head = ["algorithm", "balanced accuracy %", "95 % interval"]
    if len(board.rows) > 1:
        head += [f"minus {board.best.name}, points", "95 % interval"]
    return head, [_cells(row, board) for row in board.rows]


def _cells(row: Row, board: Leaderboard) -> list[str]:
    best = board.best.balanced
    assert row.balanced is not None
    assert best is not None
    own = mean_interval(row.balanced)
    cells = [row.name, percent(own.mean), cell_bracket(own)]
    if len(board.rows) == 1:
        return cells
    if row is board.best:
        return [*cells, NOTHING, NOTHING]
    difference = paired_difference(row.balanced, best)
    return [*cells, points(difference.mean), cell_bracket(difference.interval)]
