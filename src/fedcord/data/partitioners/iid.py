"""`iid`: every client a random sample of the same size, the reference without heterogeneity.

And as an option of every other partition, `examples=iid`: clients of that partition's sizes, each a
random sample of what it has given out. What then differs from the partition itself is which
examples a client holds, and nothing else: the control that tells label skew from unequal sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
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


def redistributed(parts: Sequence[Indices], seed: int) -> list[Indices]:
    """Disjoint parts of the same sizes, over the same examples, at random."""
    together = np.concatenate(parts)
    if len(np.unique(together)) < len(together):
        raise DataError(
            "examples=iid redistributes what clients hold, but here some hold the same examples; "
            "use a partition without overlap, such as dirichlet."
        )
    rng = numpy_generator(seed, "partition/examples")
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    # sorted first: the result does not depend on who had them before
    return np.split(rng.permutation(np.sort(together)), cuts)
