"""Correction for having looked more than once."""

from __future__ import annotations

from collections.abc import Sequence

from fedcord.core.errors import NumericalError


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's step-down adjusted p-values, in the order given.

    Valid however the tests depend on each other, which paired comparisons on shared seeds do.

    Args:
        p_values: one per comparison; None where no test was possible. A None stays None and does
            not count as a comparison.
    """
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise NumericalError(f"a p-value of {p} was given; it must lie between 0 and 1.")
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[index] = largest
    return tuple(adjusted)
