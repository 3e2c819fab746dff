"""Train, validation and test parts of one client's examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError
from fedcord.core.rng import numpy_generator
from fedcord.data.share import floor_share

Indices = NDArray[np.int64]


def split_client(
    indices: Indices, *, validation: float, test: float, seed: int, client: int
) -> tuple[Indices, Indices, Indices]:
    """Cut one client's examples into three disjoint parts.

    Models and hyper-parameters are chosen on the validation part, so it is carved from what the
    client would train on and never from the test split. Sizes are rounded down in favour of
    training: a client with any example has one to train on.

    Args:
        indices: [n] the client's examples.
        validation: fraction for selection, at least 0.
        test: fraction for the client's own (personalised) test, at least 0.
        seed: the run's seed.
        client: the client's number; each has its own random stream, so adding a client changes
            nothing for the others.

    Returns:
        Train, validation and test indices, each ascending; together they are `indices`.
    """
    _check_fractions(validation, test)
    size = len(indices)
    num_validation = floor_share(validation, size)
    num_test = floor_share(test, size)
    if size and num_validation + num_test >= size:  # fractions a rounding error below 1
        num_validation, num_test = (
            (num_validation - 1, num_test) if num_validation else (0, num_test - 1)
        )
    order = indices[numpy_generator(seed, "holdout", client=client).permutation(size)]
    held_out = num_validation + num_test
    parts = (order[held_out:], order[:num_validation], order[num_validation:held_out])
    train, chosen, tested = (np.sort(part).astype(np.int64, copy=False) for part in parts)
    return train, chosen, tested


def _check_fractions(validation: float, test: float) -> None:
    problems = [
        f"{name} = {fraction}: must be a fraction >= 0 and < 1 of each client's examples."
        for name, fraction in (("validation", validation), ("test", test))
        if not 0 <= fraction < 1
    ]
    if not problems and validation + test >= 1:
        problems.append(
            f"validation = {validation} and test = {test} leave nothing to train on; "
            "their sum must be below 1."
        )
    if problems:
        raise ConfigError(problems)
