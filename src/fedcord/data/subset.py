"""A random part of the training examples, for studies that must end today."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.core.rng import numpy_generator


def subset_pool(num_examples: int, *, size: int | None, seed: int) -> NDArray[np.int64]:
    """The examples that stay, each equally likely; classes keep their shares up to chance.

    Args:
        num_examples: N.
        size: how many stay; None for all.
        seed: the run's seed, so that every seed of a study sees other examples.

    Returns:
        Ascending indices below N.
    """
    if size is None:
        return np.arange(num_examples, dtype=np.int64)
    if not 1 <= size <= num_examples:
        raise DataError(
            f"subset = {size}: the data has {num_examples} training examples; give a number from "
            f"1 to {num_examples}, or leave it out to keep all."
        )
    rng = numpy_generator(seed, "partition/subset")
    return np.sort(rng.choice(num_examples, size, replace=False)).astype(np.int64, copy=False)
