"""`iid`: every client a random sample of the same size, the reference without heterogeneity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source


@dataclass(frozen=True)
class Iid:
    """Shuffle, then cut into equal parts (sizes differ by at most one)."""

    def problems(self, num_clients: int) -> list[str]:
        """Nothing can be wrong."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool."""
        rng = numpy_generator(seed, "partition/iid")
        return list(np.array_split(rng.permutation(source.pool), num_clients))
