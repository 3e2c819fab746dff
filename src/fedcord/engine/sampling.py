"""Which clients take part in an exchange: a function of (seed, exchange) alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fedcord.core.contract import Algorithm, Env, Probes
from fedcord.core.errors import ConfigError
from fedcord.core.rng import numpy_generator


def sample_clients(seed: int, exchange: int, eligible: Sequence[int], count: int) -> list[int]:
    """`count` different clients of `eligible` in ascending order, drawn without replacement.

    Because the draw depends on nothing else, a resumed run needs no replay, and all algorithms
    compared under one seed meet the same clients.
    """
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


def exchange_at(algorithm: Algorithm, env: Env, round_: int) -> int:
    """The number of the exchange that a round belongs to; usually every round is one.

    Probes belong to the exchange they precede: whoever takes part in it does all the training that
    leads there, and the others do none.
    """
    if not isinstance(algorithm, Probes):
        return round_
    earlier = (dataclasses.replace(env, round=number) for number in range(round_))
    return sum(not algorithm.is_probe(place) for place in earlier)
