"""`classes:n`: every client owns n classes, and owners of a class share its examples equally.

Classes are given out so that the number of owners differs by at most one between classes. So every
class has an owner as soon as K·n reaches the number of classes; with fewer, the classes nobody owns
are left out of the federation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source


@dataclass(frozen=True)
class Classes:
    """A fixed number of classes per client."""

    per_client: int = param(2, "classes each client owns", at_least=1)

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts; they cover the pool when K·n is at least the number of classes."""
        rng = numpy_generator(seed, "partition/classes")
        classes = [rng.permutation(members) for members in source.by_class() if len(members)]
        if self.per_client > len(classes):
            raise DataError(
                f"classes:{self.per_client} asks for {self.per_client} classes per client, but "
                f"only {len(classes)} classes have examples; ask for at most {len(classes)}."
            )
        owners: list[list[int]] = [[] for _ in classes]
        for client in range(num_clients):
            # least owned first, at random among equals: distinct for a client, even over classes
            rank = np.lexsort(
                (rng.random(len(classes)), np.array([len(owner) for owner in owners]))
            )
            for c in rank[: self.per_client]:
                owners[c].append(client)
        parts: list[list[Indices]] = [[] for _ in range(num_clients)]
        for members, owner in zip(classes, owners, strict=True):
            if owner:
                for client, part in zip(owner, np.array_split(members, len(owner)), strict=True):
                    parts[client].append(part)
        return [np.concatenate(part) for part in parts]
