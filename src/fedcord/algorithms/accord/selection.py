"""Whose encoders travel when not all can.

    size       of the clients with most examples
    coverage   greedily, so that the classes seen by the chosen are many and well filled
    random     by the seed
    cka        greedily, the most unlike in what they compute
    all        everybody's, or the largest clients' where there is no room for all

The first three are decided from class counts, before anybody trains, so clients that are not chosen
need not train at all. For the last two everybody trains and sends, which saves the first exchange.
Whatever the rule, the chosen encoders fit `byte_budget` and the width of the head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedcord.algorithms.analytic.features import network_features
from fedcord.algorithms.kit.encoder import encoder_with
from fedcord.core.contract import ClientId, Env
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors
from fedcord.ops.number_format import grow

PROBES = 256
"""Noise inputs on which encoders are compared."""

RULES = ("size", "coverage", "random", "cka", "all")


@dataclass(frozen=True)
class Cost:
    """What one more encoder takes: bytes of every client's download, columns of the head."""

    num_bytes: int
    width: int


@dataclass(frozen=True)
class Selection:
    """Which encoders are sent to everybody."""

    rule: str = param("size", "how encoders are chosen", choices=RULES)
    max_encoders: int | None = param(
        None,
        "encoders at most; none: as many as byte_budget and joint.width_limit allow",
        at_least=1,
    )
    byte_budget: float = param(1e8, "bytes of encoders that one client downloads at most", above=0)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def asks_first(self) -> bool:
        """Whether class counts are collected before anybody trains."""
        return self.rule in ("size", "coverage", "random")

    def within_budget(
        self, order: Sequence[ClientId], cost: Callable[[ClientId], Cost], width_limit: int
    ) -> list[ClientId]:
        """Those of `order` that fit when taken one after the other, ascending.

        One that does not fit is passed over, so a smaller one behind it still can.
        """
        chosen: list[ClientId] = []
        num_bytes = width = 0
        for client in order:
            if self.max_encoders is not None and len(chosen) == self.max_encoders:
                break
            more = cost(client)
            fits = num_bytes + more.num_bytes <= self.byte_budget
            if fits and width + more.width <= width_limit:
                chosen.append(client)
                num_bytes, width = num_bytes + more.num_bytes, width + more.width
        return sorted(chosen)

    def order(self, counts: Mapping[ClientId, Tensor], env: Env) -> list[ClientId]:
        """Clients in the order in which their encoders are wanted, by their class counts [C]."""
        if self.rule == "coverage":
            return by_coverage(counts)
        if self.rule == "random":
            return at_random(counts, env.generator("selection"))
        return by_size(counts)


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


def on_noise(models: Mapping[ClientId, Tensors], env: Env) -> dict[ClientId, Tensor]:
    """Every encoder's features [N, D] of the same noise; the server has no data."""
    task = env.task
    noise = torch.randn(PROBES, *task.input_shape, generator=env.generator("probes"))
    inputs = noise.to(task.device)
    return {
        client: network_features(encoder_with(task, grow(model), client), inputs)
        for client, model in models.items()
    }


def linear_cka(first: Tensor, second: Tensor) -> float:
    """Centred kernel alignment of features [N, D] and [N, E] with linear kernels, in [0, 1].

    Reference: Kornblith et al., "Similarity of Neural Network Representations Revisited", ICML
    2019. 1 for features that are rotations and multiples of each other.
    """
    x, y = (f.double() - f.double().mean(dim=0) for f in (first, second))
    cross = float((x.T @ y).square().sum())
    own = float((x.T @ x).norm() * (y.T @ y).norm())
    return cross / own if own > 0 else 0.0
