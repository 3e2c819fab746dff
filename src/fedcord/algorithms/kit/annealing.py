"""Factors that fall from 1 to 0 along the way: of learning rates, of alignment."""

from __future__ import annotations

import math

SHAPES = ("constant", "linear", "cosine")


def annealing(shape: str, progress: float, floor: float = 0.0) -> float:
    """The factor s(p): 1 at the start, `floor` at the end.

    >>> [annealing("linear", p) for p in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """
    if shape == "constant":
        return 1.0
    factor = 1 - progress if shape == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return min(1.0, max(floor, factor))
