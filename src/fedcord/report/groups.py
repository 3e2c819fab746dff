"""Accuracy on the parts of the test set that belong together, such as domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import NOTHING, bracket, percent
from fedcord.report.row import Row
from fedcord.statistics import share_interval


def group_kinds(board: Leaderboard) -> list[str]:
    """What test examples are grouped by, in any row."""
    return sorted({kind for row in board.rows for kind in row.per_group})


def group_table(board: Leaderboard, kind: str) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: every part, and all parts with equal weight, each with its interval."""
    parts = sorted({part for row in board.rows for part in row.per_group.get(kind, {})})
    rows = [[row.label, *_cells(row, kind, parts)] for row in board.rows]
    return ["algorithm", *parts, f"mean of {kind}s"], rows


def _cells(row: Row, kind: str, parts: Sequence[str]) -> list[str]:
    found = row.per_group.get(kind, {})
    cells = [_cell(found[part]) if part in found else NOTHING for part in parts]
    is_complete = len(found) == len(parts)
    mean = np.mean([found[part] for part in parts], axis=0) if is_complete else None
    return [*cells, NOTHING if mean is None else _cell(mean.tolist())]


def _cell(values: Sequence[float]) -> str:
    """Mean in percent, and its interval where there is one."""
    interval = share_interval(values)
    mean = percent(interval.mean)
    return f"{mean} {bracket(interval)}" if interval.has_interval else mean
