"""Which results may be compared: those that share the seed, the data *and* the partition.

A seed decides partition, first weights and client sampling at once, so two algorithms' results for
one seed differ by the algorithm only. That is what makes a paired test sharper than an unpaired
one, and what makes it wrong when the pairs are not pairs. Index lists alone do not make a pair: two
data sets of equal size have the same ones under `iid`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import PairingError


@dataclass(frozen=True)
class Outcome:
    """One run's number.

    Attributes:
        seed: the run's seed.
        partition_hash: of the split over clients the run used.
        value: what is compared, such as the final accuracy.
        data_hash: of the examples the run used; None where an older version did not record it,
            which pairs with anything.
        settings: by name, what must be equal beside the data; a setting that one side does not
            know is not compared.
    """

    seed: int
    partition_hash: str
    value: float
    data_hash: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two algorithms' values in the same order of seeds.

    Attributes:
        seeds: [n], ascending.
        first: [n].
        second: [n].
    """

    seeds: tuple[int, ...]
    first: NDArray[np.float64]
    second: NDArray[np.float64]


def pair(
    first: Sequence[Outcome],
    second: Sequence[Outcome],
    names: tuple[str, str] = ("the first", "the second"),
) -> Pairs:
    """Align two lists of outcomes by seed.

    Raises:
        PairingError: when a seed occurs twice or on one side only, or has different data,
            partitions or settings.
    """
    left, right = _by_seed(first, names[0]), _by_seed(second, names[1])
    for name, own, other in ((names[0], left, right), (names[1], right, left)):
        only = sorted(own.keys() - other.keys())
        if only:
            raise PairingError(
                f"only {name} has a result for seed {_listed(only)}; {names[0]} and {names[1]} "
                "need the same seeds: run the missing ones or leave these out."
            )
    if not left:
        raise PairingError(
            f"{names[0]} and {names[1]} have no results to compare; run both on the same seeds."
        )
    seeds = tuple(sorted(left))
    for seed in seeds:
        _check_same_problem(left[seed], right[seed], names)
    return Pairs(
        seeds,
        np.array([left[seed].value for seed in seeds], dtype=np.float64),
        np.array([right[seed].value for seed in seeds], dtype=np.float64),
    )


def _check_same_problem(ours: Outcome, theirs: Outcome, names: tuple[str, str]) -> None:
    """Refuse two runs of one seed that did not solve the same problem."""
    advice = (
        "a comparison needs the same data on the same clients: run both with the same data set, "
        "partition and clients, or report them separately."
    )
    for key in sorted(ours.settings.keys() & theirs.settings.keys()):
        if ours.settings[key] != theirs.settings[key]:
            raise PairingError(
                f"for seed {ours.seed}, {names[0]} has {key} {ours.settings[key]} and {names[1]} "
                f"{theirs.settings[key]}; {advice}"
            )
    for what in ("data", "partition"):
        own, other = getattr(ours, f"{what}_hash"), getattr(theirs, f"{what}_hash")
        if None not in (own, other) and own != other:
            raise PairingError(
                f"for seed {ours.seed}, {names[0]} used {what} {own[:12]} and {names[1]} {what} "
                f"{other[:12]}; {advice}"
            )


def _by_seed(outcomes: Sequence[Outcome], name: str) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    for outcome in outcomes:
        if outcome.seed in found:
            raise PairingError(
                f"{name} has two results for seed {outcome.seed}; keep one run per seed."
            )
        found[outcome.seed] = outcome
    return found


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)
