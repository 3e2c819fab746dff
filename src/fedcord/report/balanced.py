"""Balanced accuracy: the mean over classes of the share of each that is recognised.

Where the test set has as many examples of every class it is the accuracy itself and is not shown
again. Elsewhere accuracy can be high for a method that knows nothing but the largest class.
"""

from __future__ import annotations

import numpy as np

from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import NOTHING, cell_bracket, percent, points
from fedcord.report.row import Row, over_shared_seeds
from fedcord.statistics import paired_difference, share_interval

ROUNDING = 1e-9
BALANCED = METRICS["balanced_accuracy"]
HIDDEN = 0.05
"""From such a distance on, accuracy is said to hide how small classes fare."""

TITLE = "Balanced accuracy, %"
EXPLANATION = (
    "The mean over classes of the share of each that is recognised, beside the accuracy because "
    "the test set does not have as many examples of every class; 95 % intervals of means are "
    "Student t on the logit scale, of differences plain Student t."
)


def is_worth_showing(board: Leaderboard) -> bool:
    """Whether it is known of every method, test classes are unequal, and accuracy is compared.

    Older runs did not count test examples; for them it is worth showing where it differs from the
    accuracy.
    """
    if board.metric.name != "accuracy":
        return False
    if not all(BALANCED.name in row.measured for row in board.rows):
        return False
    floor = board.floor
    if floor is not None and floor.is_exact:
        return floor.is_unequal
    gaps = [
        abs(own - plain)
        for row in board.rows
        for own, plain in zip(row.measured[BALANCED.name], row.values, strict=True)
    ]
    return max(gaps) > ROUNDING


def floor_sentence(board: Leaderboard) -> str:
    """What a constant answer would reach, and whether accuracy hides it.

    Empty where test classes are equal or unknown.
    """
    floor = board.floor
    if floor is None or not floor.is_unequal:
        return ""
    return f"{floor.sentence}{_warning(board)}"


def _warning(board: Leaderboard) -> str:
    """What to do where accuracy says more about large classes than about the method."""
    if not is_worth_showing(board):
        return ""
    balanced = {row.name: float(np.mean(row.measured[BALANCED.name])) for row in board.rows}
    first = max(board.rows, key=lambda row: (balanced[row.name], row is board.best))
    best = board.best
    choose = f"compare by it with --metric {BALANCED.name}."
    if first is not best:
        return f" Accuracy hides this: by balanced accuracy {first.name} is first; {choose}"
    if best.score.mean - balanced[best.name] > HIDDEN:
        return (
            f" Accuracy hides this: the balanced accuracy of {best.name} is "
            f"{percent(best.score.mean - balanced[best.name], 1)} points lower; {choose}"
        )
    return ""


def balanced_table(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Headings and rows, in the order of the leaderboard and paired with its first row."""
    head = ["algorithm", "balanced accuracy %", "95 % interval"]
    if len(board.rows) > 1:
        head += [f"minus {board.best.name}, points", "95 % interval"]
    return head, [_cells(row, board) for row in board.rows]


def _cells(row: Row, board: Leaderboard) -> list[str]:
    own = share_interval(row.measured[BALANCED.name])
    cells = [row.label, percent(own.mean), cell_bracket(own)]
    if len(board.rows) == 1:
        return cells
    if row is board.best:
        return [*cells, NOTHING, NOTHING]
    ours, theirs = over_shared_seeds(row, board.best, BALANCED)
    if not ours:
        return [*cells, NOTHING, NOTHING]
    difference = paired_difference(ours, theirs)
    return [*cells, points(difference.mean), cell_bracket(difference.interval)]
