"""A federation of labelled vectors for closed-form methods, and verbs called by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.core.contract import Env, ServerState, Update
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from tests.federation import VECTOR, task

LINEAR = FeatureMap(source="pixels", expansion="none", unit=False, bias=False)
NARROW = FeatureMap(width=20)
SIZE, CLASSES = 8, 3

IMAGES: dict[str, object] = {
    **VECTOR,
    "kind": "image",
    "input_shape": [1, 8, 8],
    "models": ["mlp:8"],
}
_TASKS: dict[str, Task] = {}


def env(round_: int = 0, rounds: int = 1, images: bool = False, seed: int = 0) -> Env:
    name = "images" if images else "vectors"
    if name not in _TASKS:
        _TASKS[name] = task(IMAGES if images else VECTOR)
    return Env(_TASKS[name], seed, round_, rounds)


def samples(count: int, seed: int = 0, images: bool = False) -> Examples:
    g = torch.Generator().manual_seed(seed)
    shape = (1, 8, 8) if images else (SIZE,)
    labels = torch.randint(CLASSES, (count,), generator=g)
    centres = torch.randn(CLASSES, *shape, generator=torch.Generator().manual_seed(99))
    inputs = 1.5 * centres[labels] + torch.randn(count, *shape, generator=g)
    if images:
        inputs = (inputs * 30 + 128).clamp(0, 255).to(torch.uint8)
    return Examples(inputs, labels)


def client(examples: Examples, rows: Tensor | slice = slice(None)) -> ClientData:
    nothing = Examples(examples.inputs[:0], examples.labels[:0])
    return ClientData(Examples(examples.inputs[rows], examples.labels[rows]), nothing, nothing)


def dealt(examples: Examples, parts: Sequence[Tensor]) -> list[ClientData]:
    return [client(examples, part) for part in parts]


def updates(
    method: Any, state: ServerState, clients: Sequence[ClientData], at: Env
) -> list[tuple[int, Update]]:
    return [
        (k, method.client_update(state.shared, {}, data, at.at(k)).update)
        for k, data in enumerate(clients)
    ]


def trained(method: Any, clients: Sequence[ClientData], at: Env | None = None) -> ServerState:
    """All rounds of a method, client numbers by place."""
    start = replace(at or env(), num_rounds=method.traits.rounds)
    state: ServerState = method.init(start)
    for round_ in range(method.traits.rounds):
        here = replace(start, round=round_)
        state = method.aggregate(state, iter(updates(method, state, clients, here)), here)
    return state


def weight(state: ServerState) -> Tensor:
    return state.result["head.weight"]


def one_hot(labels: Tensor) -> Tensor:
    return torch.eye(CLASSES, dtype=torch.float64)[labels]


def gap(found: Tensor, wanted: Tensor) -> float:
    """Relative Frobenius error."""
    return float((found - wanted).norm() / wanted.norm())
