"""What every method answered for the examples of each class."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from fedcord.report.classes import confusion_of
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.markup import Cell, Line, choice, table
from fedcord.report.row import Row

MOST_CLASSES = 20
"""With more classes the page shows the picture of the best method instead."""


def has_confusion_tables(board: Leaderboard) -> bool:
    """Whether the best method counted its answers, for classes that a table can hold."""
    counts = confusion_of(board.best)
    return counts is not None and len(counts) <= MOST_CLASSES


def confusion_tables(board: Leaderboard) -> str:
    """Counts over all seeds, a table for each method that has them, the best one first."""
    known = [(row, counts) for row in board.rows if (counts := confusion_of(row)) is not None]
    title = '<h3 class="later">Which class is taken for which</h3>'
    sentence = (
        '<p class="small">Test examples over all seeds: a row for each class, a column for each '
        "answer. Shaded by the share of the row; blank is never.</p>"
    )
    return (
        title
        + sentence
        + choice("confusion", "Method", [(row.name, _table(row, counts)) for row, counts in known])
    )


def _table(row: Row, counts: NDArray[np.int64]) -> str:
    assert row.runs[0].result is not None
    names = [escape(own.name) for own in row.runs[0].result.measured.classes]
    head = [Cell(f"{escape(row.name)}, class"), *(Cell(f"as {name}") for name in names)]
    lines = []
    for name, own in zip(names, counts, strict=True):
        total = max(1, int(own.sum()))
        cells = [
            Cell(f"{count:,}" if count else "", count, shade=count / total if count else None)
            for count in own.tolist()
        ]
        lines.append(Line([Cell(name), *cells]))
    return table(f"Answers of {row.name} by class", head, lines, kind="shaded confusion")
