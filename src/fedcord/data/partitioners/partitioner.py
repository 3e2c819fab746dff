"""What a partitioner is given and must return, and how several of them draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
T = TypeVar("T")

MAX_DRAWS = 2000
"""Enough for conditions met once in a few hundred draws; a rarer one is a mistaken setting."""


@dataclass(frozen=True)
class Source:
    """The examples to distribute; partitioners read it and change nothing.

    Attributes:
        labels: [N] class of every training example.
        pool: [M] ascending indices of those that may be given; the long-tail filter leaves fewer
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

    def value_name(self, key: str, value: Any) -> str:
        """What a value of a group stands for."""
        names = self.group_names.get(key, ())
        is_named = isinstance(value, (int, np.integer)) and 0 <= value < len(names)
        return names[int(value)] if is_named else str(value)

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


@runtime_checkable
class NamesClients(Protocol):
    """A partitioner whose clients have names of their own."""

    def client_names(self, source: Source, parts: Sequence[Indices]) -> tuple[str, ...]:
        """One for each of the parts that `split` made; none when they are not known."""
        ...


@runtime_checkable
class NamesTests(Protocol):
    """A partitioner that may know which examples each client keeps for its own test."""

    def client_tests(self, parts: Sequence[Indices]) -> tuple[Indices, ...]:
        """For each of the parts that `split` made some of its indices; none when not known."""
        ...


def redraw(draw: Callable[[], T], is_good: Callable[[T], bool]) -> T | None:
    """The first good one of at most `MAX_DRAWS` draws, or None: never for ever."""
    for _ in range(MAX_DRAWS):
        drawn = draw()
        if is_good(drawn):
            return drawn
    return None
