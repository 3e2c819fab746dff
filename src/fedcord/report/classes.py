"""The classes of the best method: what is recognised, and what it is taken for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.measured import ClassScores
from fedcord.report.numbers import NOTHING, percent
from fedcord.report.row import Row

MOST_CLASSES = 30
"""Of more classes only those with the lowest F1 are listed."""

COLUMNS: dict[str, Callable[[ClassScores], float | None]] = {
    "precision %": lambda own: own.precision,
    "recall %": lambda own: own.recall,
    "F1 %": lambda own: own.f1,
    "AUROC %": lambda own: own.auroc,
    "average precision %": lambda own: own.average_precision,
}


def has_classes(board: Leaderboard) -> bool:
    """Whether every run of the best method tells of the same classes."""
    names = {tuple(own.name for own in classes) for classes in _by_seed(board)}
    return len(names) == 1 and names != {()}


def class_table(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the best method's classes, means over seeds."""
    runs = _by_seed(board)
    counts = confusion(board)
    columns = {
        name: [_mean([column(own[label]) for own in runs]) for label in range(len(runs[0]))]
        for name, column in COLUMNS.items()
    }
    known = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    f1 = columns["F1 %"]
    order = list(range(len(runs[0])))
    if len(order) > MOST_CLASSES:
        order = sorted(order, key=lambda label: (f1[label] is None, f1[label], label))
        order = sorted(order[:MOST_CLASSES])
    taken = ["most often taken for"] if counts is not None else []
    rows = []
    for label in order:
        cells = [runs[0][label].name, _examples([own[label].examples for own in runs])]
        cells += [percent(values[label], 1) for values in known.values()]
        if counts is not None:
            cells.append(_taken_for(counts, label, [own.name for own in runs[0]]))
        rows.append(cells)
    return ["class", "test examples", *known, *taken], rows


def classes_sentence(board: Leaderboard) -> str:
    """What the table is."""
    runs, best = _by_seed(board), board.best
    which = ""
    if len(runs[0]) > MOST_CLASSES:
        which = f" Of {len(runs[0])} classes, the {MOST_CLASSES} with the lowest F1."
    over = f", mean over {len(runs)} seeds" if len(runs) > 1 else ""
    return f"{best.name} on the test examples of each class{over}.{which}"


def confusion(board: Leaderboard) -> NDArray[np.int64] | None:
    """[C, C] of the best method."""
    return confusion_of(board.best)


def confusion_of(row: Row) -> NDArray[np.int64] | None:
    """[C, C] by class and answer, over all seeds of a method; None where unknown."""
    found = [run.result.measured.confusion for run in row.runs if run.result is not None]
    known = [matrix for matrix in found if matrix is not None]
    if not known or len(known) < len(found) or len({matrix.shape for matrix in known}) > 1:
        return None
    total: NDArray[np.int64] = np.sum(known, axis=0)
    return total


def _by_seed(board: Leaderboard) -> list[tuple[ClassScores, ...]]:
    return [run.result.measured.classes for run in board.best.runs if run.result is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    """Of the seeds that have one: on some a class may have no example."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _examples(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _taken_for(counts: NDArray[np.int64], label: int, names: Sequence[str]) -> str:
    """The wrong answer that examples of a class get most often, and how often."""
    wrong = counts[label].copy()
    wrong[label] = 0
    if not wrong.any():
        return NOTHING
    other = int(wrong.argmax())
    return f"{names[other]} ({percent(float(wrong[other] / counts[label].sum()), 1)} %)"
