"""Drawing again until a condition holds, but never for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

MAX_DRAWS = 2000
"""Enough for conditions met once in a few hundred draws; a rarer one is a mistaken setting."""


def redraw(draw: Callable[[], T], is_good: Callable[[T], bool]) -> T | None:
    """The first good one of at most `MAX_DRAWS` draws, or None."""
    for _ in range(MAX_DRAWS):
        drawn = draw()
        if is_good(drawn):
            return drawn
    return None
