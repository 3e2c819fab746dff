"""The ceiling and the floor among the methods of a study: in figures they are lines.

Both are levels to read the others against. `centralised` has everybody's data, so it is no choice
for those who may not move theirs, and would win every comparison of accuracy with bytes. `local`
exchanges nothing, which is a choice. In tables both are rows; the ceiling stands last and is never
the best that others are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedcord.report.load import Run
from fedcord.report.row import Row

if TYPE_CHECKING:
    from fedcord.report.leaderboard import Leaderboard

CEILING, FLOOR = "centralised", "local"


def is_bound(runs: Sequence[Run], which: Sequence[str] = (CEILING, FLOOR)) -> bool:
    """Whether runs of one name are of a bound, whatever they are called."""
    return runs[0].config.get("algorithm") in which


def bounds(board: Leaderboard, which: Sequence[str] = (CEILING, FLOOR)) -> tuple[Row, ...]:
    """The rows that are bounds to others; none where there are no others."""
    found = tuple(row for row in board.rows if is_bound(row.runs, which))
    return found if len(found) < len(board.rows) else ()


def without(board: Leaderboard, left_out: Sequence[Row]) -> tuple[Row, ...]:
    """All rows but some."""
    names = {row.name for row in left_out}
    return tuple(row for row in board.rows if row.name not in names)
