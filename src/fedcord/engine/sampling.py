"""Which clients take part in an exchange: a function of (seed, exchange) alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedcord.core.contract import Algorithm
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.rng import numpy_generator

Participation = float | tuple[float, ...]
"""The share of clients that takes part: one for the whole run, or one by round, of which the last
holds on."""


def clients_of_round(
    algorithm: Algorithm,
    participation: Participation,
    seed: int,
    round_: int,
    eligible: Sequence[int],
) -> list[int]:
    """Who takes part in a round, in ascending order.

    Shares by round are drawn round by round, whatever the method: somebody may then train an
    encoder and be missing when sums are asked for, or the other way round.
    """
    by_round = isinstance(participation, tuple)
    exchange = round_ if by_round else exchange_at(algorithm, round_)
    count = num_in_round(participation, round_, len(eligible))
    return sample_clients(seed, exchange, eligible, count)


def num_in_round(participation: Participation, round_: int, num_eligible: int) -> int:
    """How many of `num_eligible` clients take part in a round, at least one."""
    return max(1, math.floor(share_of_round(participation, round_) * num_eligible + 0.5))


def least_in_a_round(participation: Participation, num_rounds: int, num_eligible: int) -> int:
    """How many clients take part in the round of a run that has fewest."""
    given = len(participation) if isinstance(participation, tuple) else 1
    rounds = range(min(num_rounds, given))  # the rounds after them are like the last
    return min(num_in_round(participation, round_, num_eligible) for round_ in rounds)


def share_of_round(participation: Participation, round_: int) -> float:
    """The share of clients that takes part in a round."""
    if isinstance(participation, tuple):
        return participation[min(round_, len(participation) - 1)]
    return participation


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
