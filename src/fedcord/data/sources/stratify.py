"""The fixed test part of data that comes without an official one."""

from __future__ import annotations

import numpy as np

from fedcord.core.rng import numpy_generator
from fedcord.data.dataset import Array, Labels

TEST_SHARE = 0.2
_SEED = 0  # a property of the data set, not of an experiment: every run must see the same test part


def stratified_test_part(strata: Labels, purpose: str) -> tuple[Labels, Labels]:
    """Divide rows 80/20 within every stratum, the same way on every call.

    Args:
        strata: int64 [N], usually the labels; rows with equal numbers are divided together.
        purpose: names the random stream, so that two data sets do not share one.

    Returns:
        Ascending row numbers of the training part and of the test part. A stratum with a single
        row stays in training.
    """
    generator = numpy_generator(_SEED, f"data.test-part.{purpose}")
    test: list[Array] = [np.empty(0, np.int64)]
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        count = max(1, round(TEST_SHARE * len(rows))) if len(rows) > 1 else 0
        test.append(generator.permutation(rows)[:count])
    chosen = np.zeros(len(strata), dtype=bool)
    chosen[np.concatenate(test)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
