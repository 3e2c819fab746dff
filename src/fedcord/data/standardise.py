"""Every feature of a table to mean 0 and standard deviation 1.

The constants come from plain sums over the clients' training parts, as sites could add them up
without showing a row: first how many rows there are and Σx, then, with the mean known,
Σ(x − mean)². One pass with Σx² would do for exact numbers; in floating point it loses the spread of
a feature that lies far from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedcord.data.dataset import Array

_ROWS = 16_384  # at a time: float64 copies of all rows at once would double the memory
_FLOAT32 = np.finfo(np.float32)

Floats = NDArray[np.float64]


def standardisation(parts: Sequence[Array]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every feature over all clients.

    A feature that does not vary beyond what float32 can tell apart gets the deviation 1, so that it
    becomes 0 rather than noise.

    Args:
        parts: for each client float32 [n, D], its training rows; n may be 0.

    Returns:
        D numbers each; none when there is no row at all.
    """
    count = sum(len(part) for part in parts)
    if count == 0:
        return (), ()
    mean = mean_of([first_sum(part) for part in parts], count)
    return constants([second_sum(part, mean) for part in parts], mean, count)


def first_sum(rows: Array) -> Floats:
    """A client's Σx per feature."""
    return _client_sum(rows, lambda part: part)


def mean_of(sums: Sequence[Floats], count: int) -> Floats:
    """The mean of every feature from all clients' sums, in the order of their numbers."""
    mean: Floats = np.sum(sums, axis=0) / count
    return mean


def second_sum(rows: Array, mean: Floats) -> Floats:
    """A client's Σ(x − mean)² per feature."""
    return _client_sum(rows, lambda part: (part - mean) ** 2)


def constants(
    sums: Sequence[Floats], mean: Floats, count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation from all clients' second sums, in the order of their numbers."""
    deviation = np.sqrt(np.sum(sums, axis=0) / count)
    fixed = is_constant(mean, deviation, float(_FLOAT32.eps))
    return tuple(mean.tolist()), tuple(np.where(fixed, 1.0, deviation).tolist())


def is_constant(
    mean: Floats | float, deviation: Floats | float, resolution: float
) -> NDArray[np.bool_] | np.bool_:
    """Whether features vary no more than rounding does.

    Args:
        mean: of each feature.
        deviation: its standard deviation.
        resolution: relative to the mean, what the numbers can tell apart.
    """
    fixed: NDArray[np.bool_] = deviation <= np.maximum(resolution * np.abs(mean), _FLOAT32.tiny)
    return fixed


def _client_sum(rows: Array, of: Callable[[Floats], Floats]) -> Floats:
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _ROWS):
        total += of(rows[start : start + _ROWS].astype(np.float64)).sum(axis=0)
    return total
