"""Which clients take part in an exchange: a function of (seed, exchange) alone."""

from __future__ import annotations

from collections.abc import Sequence

from fedcord.core.contract import Algorithm
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.rng import numpy_generator


def sample_clients(seed: int, exchange: int, eligible: Sequence[int], count: int) -> list[int]:
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
    chosen = numpy_generator(seed, "participation", exchange).choice(
        len(eligible), size=count, replace=False
    )
    return sorted(eligible[i] for i in chosen.tolist())


def exchange_at(algorithm: Algorithm, round_: int) -> int:
    """The number of the exchange that a round belongs to, for which clients are drawn.

    Where the user chooses the number of rounds, each is one. A method that fixes it works in phases
    of a single exchange: whoever is chosen takes part in all of them, so that the models it trained
    meet the sums it sends, and the others do nothing.
    """
    return round_ if algorithm.traits.rounds is None else 0
