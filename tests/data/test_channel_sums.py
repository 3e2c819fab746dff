"""Constants of pictures from sums, against the count over all pictures together."""

from __future__ import annotations

import numpy as np
import pytest

from fedcord.data.channel_sums import channel_constants, channel_sums
from fedcord.data.formats.images import channel_statistics


@pytest.mark.parametrize("seed", range(5))
def test_constants_are_those_of_all_pictures_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sites = [
        rng.integers(0, rng.integers(2, 256), size=(size, 3, 4, 5), dtype=np.uint8)
        for size in (7, 0, 31)
    ]
    found = channel_constants([channel_sums(pictures) for pictures in sites])
    assert found == channel_statistics(np.concatenate(sites))


def test_sums_are_exact() -> None:
    bright = np.full((3, 1, 2, 2), 255, dtype=np.uint8)
    assert channel_sums(bright) == [(12, 12 * 255, 12 * 255**2)]
    assert channel_constants([channel_sums(bright)]) == ((1.0,), (0.001,))  # no spread at all
    assert channel_sums(bright[:0]) == [(0, 0, 0)]
