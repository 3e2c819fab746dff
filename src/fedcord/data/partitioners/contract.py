"""What a partitioner is given and what it must return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """The examples to deal out; partitioners read it and change nothing.

    Attributes:
        labels: [N] class of every training example.
        pool: [M] ascending indices of those that may be dealt; the long-tail filter leaves fewer
            than N.
        num_classes: C.
        groups: by key, [N] a value per example such as its domain, hospital or writer.
        group_names: by key, the name of each integer value.
    """

    labels: Indices
    pool: Indices
    num_classes: int
    groups: Mapping[str, NDArray[Any]]
    group_names: Mapping[str, tuple[str, ...]]

    def by_class(self) -> list[Indices]:
        """The pool as C arrays, one per class; an absent class has an empty one."""
        labels = self.labels[self.pool]
        ordered = self.pool[np.argsort(labels, kind="stable")]
        sizes = np.bincount(labels, minlength=self.num_classes)
        return np.split(ordered, np.cumsum(sizes)[:-1])


class Partitioner(Protocol):
    """A frozen dataclass of checked parameters that can split a source."""

    def problems(self, num_clients: int) -> list[str]:
        """What can be known to be wrong before any data is read."""
        ...

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Indices from the pool for each client; a client may get none.

        `num_clients` is 0 only where the partition says that the data may decide.
        """
        ...
