"""The mean over all clients heard so far of something they keep, kept up to date by its changes.

SCAFFOLD and FedDyn need such a mean over everybody, of whom only some take part in a round. Their
papers divide by the number of all clients, of which those not heard yet count as zero; a server
does not know it, and divides by the examples of those it has heard. Once everybody was heard, or
where everybody always takes part, both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.core.contract import ClientId, Updates
from fedcord.core.tensors import Tensors

CLIENTS, WEIGHT = "heard.clients", "heard.weight"
"""In the server's private state: who was heard, and their weight together."""


@dataclass(frozen=True)
class Heard:
    """Who was heard by the end of a round.

    Attributes:
        private: to be kept for the next round.
        before: share of the whole weight that was heard before the round.
        now: share of those heard in the round.
    """

    private: Tensors
    before: float
    now: float

    @staticmethod
    def after(private: Tensors, weights: Mapping[ClientId, float]) -> Heard:
        """With the clients of a round, by their weights."""
        known = private[CLIENTS].tolist() if CLIENTS in private else []
        old = float(private[WEIGHT]) if WEIGHT in private else 0.0
        new = sorted(weights.keys() - set(known))
        total = old + sum(weights[client] for client in new)
        kept = {
            CLIENTS: torch.tensor(sorted([*known, *new])),
            WEIGHT: torch.tensor(total, dtype=torch.float64),
        }
        return Heard(kept, old / total, sum(weights[k] for k in sorted(weights)) / total)

    def moved(self, mean: Tensor, change: Tensor) -> Tensor:
        """The mean over all heard, after those of the round changed by `change` on average."""
        return self.before * mean + self.now * change


def noted(updates: Updates, weights: dict[ClientId, float]) -> Updates:
    """The updates as they are, while their weights are written down."""
    for client, update in updates:
        weights[client] = update.weight
        yield client, update


def counted_alike(updates: Updates) -> Updates:
    """Everybody who has examples with the same weight."""
    for client, update in updates:
        yield client, replace(update, weight=float(update.weight > 0))
