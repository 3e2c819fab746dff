"""Two learning problems small enough that every check of an algorithm takes milliseconds.

`vectors` has three Gaussian classes in eight dimensions and a small MLP, which takes the stacked
fast path where an algorithm has one. `images` has stripes in three directions as 8×8 bytes and a
convolutional network with batch normalisation, so that buffers and integer tensors travel too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedcord.checks.tiny_network import build_tiny_network
from fedcord.core.errors import ConfigError, unknown_name
from fedcord.core.examples import ClientData, Examples
from fedcord.core.rng import numpy_generator
from fedcord.core.task import FixedNetwork, NetworkFactory, Task
from fedcord.data.transforms import DTYPES, augmentations, prepare_fn
from fedcord.engine.population import Population
from fedcord.models.registry import network_factory

NUM_CLASSES = 3
NUM_TEST = 30
"""Examples of each class in the server's test set."""

SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType({"vectors": (8,), "images": (1, 8, 8)})
"""The tasks by name, with the shape of one input."""

CLIENTS = ((12, 9, 0), (4, 4, 5), (0, 2, 14), (7, 3, 8))
"""Training examples per class of the usual clients: unequal sizes, two lack a class."""

ODD_CLIENTS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "with one class": (9, 0, 0),
        "with one example": (0, 1, 0),
        "with many examples": (11, 20, 19),
        "with one example of each class": (1, 1, 1),
        "with no example": (0, 0, 0),
    }
)
"""Clients that break careless code; only the last is never visited by the round loop."""

EMPTY_CLIENT = len(ODD_CLIENTS) - 1


@dataclass(frozen=True)
class TinyTask:
    """A problem with its data; made anew for every check, which may spoil it.

    Attributes:
        name: `vectors` or `images`.
        population: four clients with skewed labels.
        odd: the clients of `ODD_CLIENTS`, in that order.
    """

    name: str
    population: Population
    odd: Population

    factory = "fedcord.checks.tiny_task:task_from_values"

    @property
    def values(self) -> dict[str, Any]:
        """The task as plain values, for engines that rebuild it."""
        return {"name": self.name}

    def task(self) -> Task:
        """A new task object, sharing nothing with earlier ones."""
        return task_from_values(self.values)


def tiny_task(name: str) -> TinyTask:
    """The named task with the same data every time."""
    if name not in SHAPES:
        raise ConfigError(unknown_name("tiny task", name, SHAPES))
    source = _Source(name)
    test = source.examples([NUM_TEST] * NUM_CLASSES)
    usual = [source.client(counts) for counts in CLIENTS]
    odd = [source.client(counts) for counts in ODD_CLIENTS.values()]
    return TinyTask(name, Population.from_clients(usual, test), Population.from_clients(odd, test))


def task_from_values(values: Mapping[str, Any]) -> Task:
    """The task `TinyTask.values` describes."""
    shape = SHAPES[values["name"]]
    kind, mean, std = ("image", (0.5,), (0.25,)) if len(shape) == 3 else ("vector", (), ())

    def factory(model: str) -> NetworkFactory:
        return network_factory(
            model, kind=kind, input_shape=shape, num_classes=NUM_CLASSES, mean=mean, std=std
        )

    return Task(
        NUM_CLASSES,
        shape,
        [build_tiny_network if kind == "image" else factory("mlp:12")],
        prepare_fn(kind, mean, std),
        augmentations(kind, mean, std),
        input_dtype=DTYPES[kind],
        make_fixed=lambda name: cast(FixedNetwork, factory(f"frozen:{name}")(None)),
    )


def pooled(clients: Sequence[ClientData]) -> ClientData:
    """One client that holds what all of them hold."""
    return ClientData(
        _joined([client.train for client in clients]),
        _joined([client.validation for client in clients]),
        _joined([client.test for client in clients]),
    )


def _joined(parts: Sequence[Examples]) -> Examples:
    return Examples(
        torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts])
    )


class _Source:
    """Draws labelled examples around one centre per class."""

    def __init__(self, name: str) -> None:
        self._shape = SHAPES[name]
        self._generator = numpy_generator(0, f"tiny-{name}")
        self._centres = _stripes() if name == "images" else self._generator.normal(size=(3, 8))

    def client(self, counts: Sequence[int]) -> ClientData:
        """A client with `counts` training examples per class and a few others where it has any."""
        few = [min(count, 2) for count in counts]
        return ClientData(self.examples(counts), self.examples(few), self.examples(few))

    def examples(self, counts: Sequence[int]) -> Examples:
        """Shuffled examples with `counts[c]` of class c."""
        labels = self._generator.permutation(np.repeat(np.arange(NUM_CLASSES), counts))
        noise = self._generator.normal(size=(len(labels), *self._shape))
        values = 1.5 * self._centres[labels] + 0.8 * noise
        return Examples(self._stored(values), torch.from_numpy(labels.astype(np.int64)))

    def _stored(self, values: np.ndarray) -> Tensor:
        if len(self._shape) == 1:
            return torch.from_numpy(values.astype(np.float32))
        bytes_ = np.clip(127.5 + 40 * values, 0, 255)
        return torch.from_numpy(bytes_.astype(np.uint8))


def _stripes() -> np.ndarray:
    """Horizontal, vertical and diagonal stripes: [3, 1, 8, 8] of ±1."""
    row, column = np.indices((8, 8))
    bands = np.stack([row, column, row + column])[:, None] // 2 % 2
    return 2.0 * bands - 1.0
