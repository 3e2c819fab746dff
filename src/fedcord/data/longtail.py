"""The long-tail filter: class sizes that fall geometrically by a factor ρ from first to last class.

It thins the training examples before they are dealt to clients, so it composes with every
partition. The test split is left alone: accuracy stays balanced over the classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError
from fedcord.core.rng import numpy_generator
from fedcord.data.share import floor_share


def longtail_problem(ratio: float) -> str | None:
    """Why `ratio` cannot be the long-tail factor, or None."""
    if np.isfinite(ratio) and ratio >= 1:
        return None
    return (
        f"longtail = {ratio}: must be a finite number >= 1; it is the size of the first class "
        "divided by the size of the last, and 1 keeps every example."
    )


def longtail_counts(num_examples: int, num_classes: int, ratio: float) -> NDArray[np.int64]:
    """How many examples of each class may stay.

    n_c = floor(n_max · (1/ρ)^(c/(C−1))) with n_max = N/C.

    Args:
        num_examples: N, before the filter.
        num_classes: C.
        ratio: ρ, at least 1.

    Returns:
        [C] int64; falls from n_max to n_max/ρ.
    """
    problem = longtail_problem(ratio)
    if problem is not None:
        raise ConfigError(problem)
    largest = num_examples / num_classes
    steps = max(num_classes - 1, 1)  # a single class has no tail
    shares = [(1 / ratio) ** (c / steps) for c in range(num_classes)]
    return np.array([floor_share(share, largest) for share in shares], dtype=np.int64)


def longtail_pool(
    labels: NDArray[np.int64], *, num_classes: int, ratio: float, seed: int
) -> NDArray[np.int64]:
    """The examples that stay: a random `longtail_counts` of each class, or all it has if fewer.

    Args:
        labels: [N].
        num_classes: C.
        ratio: ρ; 1 keeps every example, also of classes larger than N/C.
        seed: the run's seed.

    Returns:
        Ascending indices into `labels`.
    """
    counts = longtail_counts(len(labels), num_classes, ratio)
    if ratio == 1 or num_classes == 1:
        return np.arange(len(labels), dtype=np.int64)
    rng = numpy_generator(seed, "partition/longtail")
    kept = [rng.permutation(np.flatnonzero(labels == c))[: counts[c]] for c in range(num_classes)]
    return np.sort(np.concatenate(kept)).astype(np.int64, copy=False)
