"""Simulated clients that send something else than what they learnt, to try rules that withstand it.

An attack changes an update where it is made, after the client's work, so that it reaches the server
as any other on every engine. What is attacked is the change that a client proposes: where the
update holds a tensor that was received under the same name and with the same shape, the difference
to it, else the tensor as it is. Whole numbers stay, and so does what would be refused at once, such
as counts of examples below 0. A client's memory is that of its honest work.

| `kind` | sent instead of the change Δ |
|---|---|
| `sign-flip` | −factor Δ |
| `scaled` | factor Δ |
| `gaussian` | normal noise of standard deviation `deviation` |
| `label-flip` | Δ, but learnt from labels C − 1 − y, see `with_flipped_labels` |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedcord.core.contract import ClientId, Env, Update
from fedcord.core.tensors import Tensors
from fedcord.engine.population import Population

LABEL_FLIP, SIGN_FLIP, SCALED, GAUSSIAN = "label-flip", "sign-flip", "scaled", "gaussian"


@dataclass(frozen=True)
class Attack:
    """Who attacks, and how.

    Attributes:
        kind: one of the table above.
        clients: the attackers.
        strength: the factor or the standard deviation; without meaning for labels.
    """

    kind: str
    clients: tuple[ClientId, ...]
    strength: float

    def on(
        self, update: Update, received: Tensors, env: Env, checked: Collection[str] = ()
    ) -> Update:
        """What the client of `env` sends in place of its update.

        Args:
            update: of its honest work.
            received: what the server had sent.
            env: the client's place.
            checked: names of tensors whose values are checked on arrival, which stay.
        """
        if env.client not in self.clients or self.kind == LABEL_FLIP:
            return update
        generator = env.generator("attack")
        sent = {}
        for name, tensor in sorted(update.tensors.items()):
            if not tensor.is_floating_point():
                sent[name] = tensor
                continue
            start = received.get(name, torch.zeros(()))
            start = start if start.shape == tensor.shape else torch.zeros_like(tensor)
            if self.kind == GAUSSIAN:
                noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                change: Tensor = self.strength * noise
            else:
                factor = -self.strength if self.kind == SIGN_FLIP else self.strength
                change = factor * (tensor.double() - start.double())
            sent[name] = (start.double() + change).to(tensor.dtype)
        sent |= {name: update.tensors[name] for name in checked}
        return replace(update, tensors=sent)

    def plain(self) -> dict[str, Any]:
        """As values that another process can be told."""
        return asdict(self)

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Attack:
        """The inverse of `plain`."""
        return Attack(values["kind"], tuple(values["clients"]), float(values["strength"]))


def with_flipped_labels(
    population: Population, clients: Sequence[ClientId], num_classes: int
) -> Population:
    """The same people, some of whom train on labels C − 1 − y; what they test on stays."""
    labels = population.labels.clone()
    for client in clients:
        start, end = population.bounds[client, :2].tolist()
        labels[start:end] = num_classes - 1 - labels[start:end]
    return replace(population, labels=labels)
