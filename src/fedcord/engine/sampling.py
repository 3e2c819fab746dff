"""Which clients take part in a round: a function of (seed, round) alone."""

from __future__ import annotations

from collections.abc import Sequence

from fedcord.core.errors import ConfigError, DataError
from fedcord.core.rng import numpy_generator


def sample_clients(seed: int, round_: int, eligible: Sequence[int], count: int) -> list[int]:
    """`count` different clients of `eligible` in ascending order, drawn without replacement.

    Because the draw depends on nothing else, a resumed run needs no replay, and all algorithms
    compared under one seed meet the same clients.
    """
    if not eligible:
        raise DataError(
            "no client holds training examples; give more data, or keep less of it for test and "
            "validation."
        )
    if not 1 <= count <= len(eligible):
        raise ConfigError(
            f"cannot sample {count} clients; {len(eligible)} of them hold data. "
            f"Choose 1 to {len(eligible)}."
        )
    if count == len(eligible):
        return sorted(eligible)
    chosen = numpy_generator(seed, "participation", round_).choice(
        len(eligible), size=count, replace=False
    )
    return sorted(eligible[i] for i in chosen.tolist())
