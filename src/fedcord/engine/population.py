"""All clients' data in one block of memory, each client a view of it.

Examples are laid out client by client (train, validation, test), so that a client's data is a
slice: visiting a client copies nothing, and the block can be placed once where worker processes map
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fedcord.core.errors import DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import Tensors, hash_tensors


@dataclass(frozen=True)
class Population:
    """The clients' data and the server's test set.

    Attributes:
        inputs: [N, ...] as stored, client by client.
        labels: [N] int64.
        bounds: [K, 4] int64: where a client starts, its training part ends, its validation part
            ends, and its test part ends.
        test: the server's test set.
        test_groups: by name, the group of every test example [N_test] int64, such as its domain.
        names: by client, what it is called; none of those that are only numbers. They are no part
            of the data: another name changes no fingerprint.
    """

    inputs: Tensor
    labels: Tensor
    bounds: Tensor
    test: Examples
    test_groups: Mapping[str, Tensor] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bounds.ndim != 2 or self.bounds.shape[1] != 4:
            raise DataError(f"bounds have shape {list(self.bounds.shape)}, expected [clients, 4].")
        in_order = bool((self.bounds.diff(dim=1) >= 0).all()) and bool((self.bounds >= 0).all())
        if not in_order or bool((self.bounds > len(self.labels)).any()):
            raise DataError("bounds must rise within a client and stay within the examples.")

    @property
    def num_clients(self) -> int:
        """K."""
        return self.bounds.shape[0]

    @property
    def clients(self) -> range:
        """Everybody."""
        return range(self.num_clients)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all data; computed once, since it reads every byte."""
        return hash_tensors(self.tensors())

    def sizes(self, client: int) -> tuple[int, int, int]:
        """A client's numbers of training, validation and test examples."""
        start, train, validation, end = self.bounds[client].tolist()
        return train - start, validation - train, end - validation

    @property
    def train_sizes(self) -> list[int]:
        """Number of training examples of every client."""
        sizes: list[int] = (self.bounds[:, 1] - self.bounds[:, 0]).tolist()
        return sizes

    def client(self, client: int) -> ClientData:
        """One client's data as views."""
        start, train, validation, end = self.bounds[client].tolist()
        return ClientData(
            self._slice(start, train), self._slice(train, validation), self._slice(validation, end)
        )

    def _slice(self, start: int, stop: int) -> Examples:
        return Examples(self.inputs[start:stop], self.labels[start:stop])

    def tensors(self) -> dict[str, Tensor]:
        """Everything as named tensors; the inverse of `from_tensors`."""
        groups = {f"group.{name}": values for name, values in self.test_groups.items()}
        return {
            "inputs": self.inputs,
            "labels": self.labels,
            "bounds": self.bounds,
            "test.inputs": self.test.inputs,
            "test.labels": self.test.labels,
            **groups,
        }

    @staticmethod
    def from_tensors(
        tensors: Tensors,
        fingerprint: str | None = None,
        names: Mapping[int, str] | None = None,
    ) -> Population:
        """A population that uses the given tensors without copying.

        Its `fingerprint` need not be computed again where somebody knows it.
        """
        made = Population(
            tensors["inputs"],
            tensors["labels"],
            tensors["bounds"],
            Examples(tensors["test.inputs"], tensors["test.labels"]),
            {n.removeprefix("group."): t for n, t in tensors.items() if n.startswith("group.")},
            names or {},
        )
        if fingerprint is not None:
            made.__dict__["fingerprint"] = fingerprint  # where cached_property looks first
        return made

    @staticmethod
    def from_clients(clients: list[ClientData], test: Examples) -> Population:
        """A population from separate clients, for tests and small scripts."""
        parts = [part for c in clients for part in (c.train, c.validation, c.test)]
        ends = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)
        columns = [ends[offset : offset + 3 * len(clients) : 3] for offset in range(4)]
        return Population(
            torch.cat([part.inputs for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.stack([column[: len(clients)] for column in columns], dim=1),
            test,
        )
