"""Whole numbers of examples from fractions."""

from __future__ import annotations

import math


def floor_share(share: float, total: float) -> int:
    """The floor of `share · total`, as the real numbers have it.

    In binary, 0.29 · 100 is a hair below 29 and a plain floor loses an example; a product this
    close to a whole number is taken to be that number.

    >>> floor_share(0.29, 100)
    29
    """
    product = share * total
    nearest = round(product)
    if abs(product - nearest) <= 1e-9 * max(1.0, abs(product)):
        return nearest
    return math.floor(product)
