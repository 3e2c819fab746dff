"""The ceiling and the floor among the methods of a study: in figures they are lines.

Both are levels to read the others against. `centralised` has everybody's data, so it is no choice
for those who may not move theirs, and would win every comparison of accuracy with bytes. `local`
exchanges nothing, which is a choice. In tables both are rows like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.row import Row

CEILING, FLOOR = "centralised", "local"


def bounds(board: Leaderboard, which: Sequence[str] = (CEILING, FLOOR)) -> tuple[Row, ...]:
    """The rows that are bounds to others; none where there are no others."""
    found = tuple(row for row in board.rows if row.runs[0].config.get("algorithm") in which)
    return found if len(found) < len(board.rows) else ()


def without(board: Leaderboard, left_out: Sequence[Row]) -> tuple[Row, ...]:
    """All rows but some."""
    names = {row.name for row in left_out}
    return tuple(row for row in board.rows if row.name not in names)
