"""Whose encoders travel when not all can.

    all        everybody's; cost grows with the square of the number of clients
    size       of the clients with most examples
    coverage   greedily, so that the classes seen by the chosen are many and well filled
    random     by the seed
    cka        greedily, the most unlike in what they compute; needs everybody's encoder first

The first four are decided from class counts, before anybody trains, so clients that are not chosen
need not train at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedcord.core.contract import ClientId
from fedcord.core.params import check_params, param

RULES = ("size", "coverage", "random", "cka", "all")


@dataclass(frozen=True)
class Selection:
    """Which encoders are sent to everybody."""

    rule: str = param("size", "how encoders are chosen", choices=RULES)
    max_encoders: int | None = param(
        None, "encoders at most; none: as many as byte_budget allows", at_least=1
    )
    byte_budget: float = param(1e8, "bytes of encoders that one client downloads at most", above=0)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def asks_first(self) -> bool:
        """Whether class counts are collected before anybody trains."""
        return self.rule in ("size", "coverage", "random")

    def within_budget(
        self, order: Sequence[ClientId], bytes_of: Callable[[ClientId], int]
    ) -> list[ClientId]:
        """The first of `order` that fit, in ascending order of clients; at least one."""
        if self.rule == "all":
            return sorted(order)
        chosen: list[ClientId] = []
        left = self.byte_budget
        for client in order:
            if self.max_encoders is not None and len(chosen) == self.max_encoders:
                break
            size = bytes_of(client)
            if size <= left or not chosen:
                chosen.append(client)
                left -= size
        return sorted(chosen)


def by_size(counts: Mapping[ClientId, Tensor]) -> list[ClientId]:
    """Most examples first; equal ones by number."""
    return sorted(counts, key=lambda client: (-float(counts[client].sum()), client))


def by_coverage(counts: Mapping[ClientId, Tensor]) -> list[ClientId]:
    """Greedily the largest gain of Σ_c √(examples of class c among the chosen)."""
    left, order = by_size(counts), []
    covered = torch.zeros_like(next(iter(counts.values())), dtype=torch.float64)
    while left:
        gains = [float((covered + counts[client]).sqrt().sum()) for client in left]
        best = left.pop(gains.index(max(gains)))  # the larger client wins a tie
        covered = covered + counts[best]
        order.append(best)
    return order


def at_random(counts: Mapping[ClientId, Tensor], generator: Generator) -> list[ClientId]:
    """Every order equally likely."""
    clients = sorted(counts)
    return [clients[place] for place in torch.randperm(len(clients), generator=generator).tolist()]


def by_difference(features: Mapping[ClientId, Tensor], first: ClientId) -> list[ClientId]:
    """`first`, then always the one least like any chosen so far.

    Args:
        features: [N, D] of every encoder on the same inputs.
        first: where to begin.
    """
    order, left = [first], [client for client in sorted(features) if client != first]
    nearest = {client: linear_cka(features[client], features[first]) for client in left}
    while left:
        next_ = min(left, key=lambda client: (nearest[client], client))
        left.remove(next_)
        order.append(next_)
        for client in left:
            likeness = linear_cka(features[client], features[next_])
            nearest[client] = max(nearest[client], likeness)
    return order


def linear_cka(first: Tensor, second: Tensor) -> float:
    """Centred kernel alignment of features [N, D] and [N, E] with linear kernels, in [0, 1].

    Reference: Kornblith et al., "Similarity of Neural Network Representations Revisited", ICML
    2019. 1 for features that are rotations and multiples of each other.
    """
    x, y = (f.double() - f.double().mean(dim=0) for f in (first, second))
    cross = float((x.T @ y).square().sum())
    own = float((x.T @ x).norm() * (y.T @ y).norm())
    return cross / own if own > 0 else 0.0
