"""A federation of quadratics: every client's loss is ½ Σ a (θ − b)², with a and b of its own.

All methods train by cross-entropy, so the network makes one of it: with two classes and label 0,
cross-entropy is log(1 + exp(s)), which for s = log(exp(q) − 1) is q. Curvatures and centres are the
client's inputs, and all its examples are the same, so every batch has the client's gradient and all
positions are known in closed form. Numbers are float64 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Algorithm, Env, ServerState
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors

POSITION = "model.position"


class Quadratic(nn.Module):
    feature_dim = 1

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        curvature, centre = inputs.chunk(2, dim=1)
        # one is added because q must be positive
        value = 1 + 0.5 * (curvature * (self.position - centre).square()).sum(1)
        return torch.stack([torch.zeros_like(value), value.expm1().log()], dim=1)


@dataclass(frozen=True)
class Client:
    """One client: how many examples it has, how curved its loss is, and where its minimum lies."""

    examples: int
    curvature: tuple[float, float]
    centre: tuple[float, float]

    @property
    def data(self) -> ClientData:
        row = torch.tensor([*self.curvature, *self.centre], dtype=torch.float64)
        labels = torch.zeros(self.examples, dtype=torch.int64)
        nothing = Examples(row.repeat(0, 1), labels[:0])
        return ClientData(Examples(row.repeat(self.examples, 1), labels), nothing, nothing)

    def reached(self, start: Tensor, lr: float, steps: int) -> Tensor:
        """Where plain gradient descent ends."""
        a, b = torch.tensor([self.curvature, self.centre], dtype=torch.float64)
        end: Tensor = b + (1 - lr * a) ** steps * (start - b)
        return end


CLIENTS = (
    Client(10, (1.0, 0.2), (0.0, 1.0)),
    Client(20, (0.3, 1.5), (2.0, -1.0)),
    Client(30, (2.0, 0.7), (1.0, 0.5)),
)


def env() -> Env:
    task = Task(2, (4,), [lambda generator: Quadratic()], lambda stored: stored)
    return Env(task, seed=0, num_rounds=1)


def optimum(clients: Sequence[Client] = CLIENTS) -> Tensor:
    """The minimum of the mean loss over all examples."""
    return weighted([torch.tensor(c.curvature).double() * c.examples for c in clients], clients)


def weighted(weights: Sequence[Tensor], clients: Sequence[Client] = CLIENTS) -> Tensor:
    """Σ w b / Σ w, which every fixed point of averaging is for some weights."""
    total = sum(weights, torch.zeros(2, dtype=torch.float64))
    centres = [torch.tensor(c.centre, dtype=torch.float64) for c in clients]
    return sum((w * b for w, b in zip(weights, centres, strict=True)), 0 * total) / total


def steps(local: LocalSGD, clients: Sequence[Client] = CLIENTS) -> list[int]:
    return [local.num_steps(client.examples) for client in clients]


def after(
    method: Algorithm,
    num_rounds: int,
    clients: Sequence[Client] = CLIENTS,
    who: Sequence[Sequence[int]] | None = None,
) -> ServerState:
    """The state after some rounds of everybody, or of those in turn whom `who` names."""
    here = env()
    state = method.init(here)
    memories: dict[int, Tensors] = {}
    for round_ in range(num_rounds):
        updates = []
        for k in range(len(clients)) if who is None else who[round_ % len(who)]:
            memory = memories.get(k, {})
            result = method.client_update(state.shared, memory, clients[k].data, here.at(k))
            memories[k] = result.memory
            updates.append((k, result.update))
        state = method.aggregate(state, iter(updates), here)
    return state


def fixed_point(method: Algorithm, clients: Sequence[Client] = CLIENTS) -> Tensor:
    """Where a round of a method without memory moves nothing; a round is affine in each axis."""
    here, ends = env(), []
    for start in (0.0, 1.0):
        state = method.init(here)
        state.shared[POSITION].fill_(start)
        sent = [
            (k, method.client_update(state.shared, {}, client.data, here.at(k)).update)
            for k, client in enumerate(clients)
        ]
        ends.append(method.aggregate(state, iter(sent), here).shared[POSITION])
    return ends[0] / (1 - (ends[1] - ends[0]))
