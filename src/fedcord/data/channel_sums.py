"""The constants of pictures from whole-number sums, as sites can add them up.

Of uint8 pictures a site tells, per channel, how many pixels there are, Σx and Σx². Whole numbers
add up exactly in any order. The constants are those of `channel_statistics` over all pictures
together, rounded to four digits in the same way; they could differ only where the fifth digit is a
tie up to the last bit of float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fedcord.data.dataset import Array
from fedcord.data.formats.images import DIGITS, LEAST_DEVIATION

_PICTURES = 4096  # at a time: wider copies of all at once would take eight times the memory


def channel_sums(pictures: Array) -> list[tuple[int, int, int]]:
    """Per channel of uint8 [N, C, H, W]: pixels, Σx and Σx²."""
    sums = np.zeros((pictures.shape[1], 2), dtype=np.int64)
    for start in range(0, len(pictures), _PICTURES):
        values = pictures[start : start + _PICTURES].astype(np.int64)
        sums[:, 0] += values.sum(axis=(0, 2, 3))
        sums[:, 1] += (values**2).sum(axis=(0, 2, 3))
    pixels = len(pictures) * int(np.prod(pictures.shape[2:]))
    return [(pixels, int(first), int(second)) for first, second in sums]


def channel_constants(
    sites: Sequence[Sequence[tuple[int, int, int]]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, of values scaled to [0, 1], from all sites' sums."""
    means, deviations = [], []
    for channel in zip(*sites, strict=True):
        pixels, first, second = (sum(part) for part in zip(*channel, strict=True))
        mean = Fraction(first, 255 * max(1, pixels))
        variance = Fraction(second, 255**2 * max(1, pixels)) - mean**2
        means.append(round(float(mean), DIGITS))
        deviations.append(round(max(float(variance) ** 0.5, LEAST_DEVIATION), DIGITS))
    return tuple(means), tuple(deviations)
