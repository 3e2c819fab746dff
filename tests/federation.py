"""A small federation for tests: Gaussian classes, an MLP or a CNN with batch norm."""

from __future__ import annotations

import torch

from fedcord.core.contract import Algorithm, Env
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.population import Population
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.experiment.task_values import TASK_FACTORY, task_from_values

SIZES = (40, 25, 1, 60)

VECTOR = {
    "kind": "vector",
    "input_shape": [8],
    "num_classes": 3,
    "mean": [],
    "std": [],
    "vocabulary": 0,
    "data_dirs": [],
    "models": ["mlp:16"],
}
IMAGE = {
    "kind": "image",
    "input_shape": [1, 16, 16],
    "num_classes": 3,
    "mean": [0.5],
    "std": [0.5],
    "vocabulary": 0,
    "data_dirs": [],
    "models": ["resnet10,width=4"],
}


def task(values: dict[str, object] = VECTOR) -> Task:
    return task_from_values(values)


def blueprint(algorithm: Algorithm, values: dict[str, object] = VECTOR) -> Blueprint:
    return Blueprint.of(algorithm, TASK_FACTORY, values)


def examples(count: int, seed: int, values: dict[str, object] = VECTOR) -> Examples:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=generator)
    shape = values["input_shape"]
    assert isinstance(shape, list)
    centres = torch.randn(3, *shape, generator=torch.Generator().manual_seed(99)) * 2
    inputs = centres[labels] + torch.randn(count, *shape, generator=generator)
    if values["kind"] == "image":
        inputs = (inputs * 30 + 128).clamp(0, 255).to(torch.uint8)
    return Examples(inputs, labels)


def population(values: dict[str, object] = VECTOR, sizes: tuple[int, ...] = SIZES) -> Population:
    clients = [
        ClientData(
            examples(size, k, values), examples(0, 0, values), examples(size // 4, 50 + k, values)
        )
        for k, size in enumerate(sizes)
    ]
    return Population.from_clients(clients, examples(300, 1000, values))


def env(values: dict[str, object] = VECTOR, seed: int = 0, rounds: int = 3) -> Env:
    return Env(task(values), seed, num_rounds=rounds)


def sequential(algorithm: Algorithm, task: Task, people: Population) -> Federation:
    """All of `people` at one node in this process."""
    return Federation(SequentialTransport(ClientNode(algorithm, task, people, InProcessMemory())))
