"""`shards:n`: sort by label, cut into K·n shards, give n shards to each client.

The pathological split of the FedAvg paper (McMahan et al., 2017): with few shards a client sees
only few classes, and all clients have the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source


@dataclass(frozen=True)
class Shards:
    """Label-sorted shards."""

    per_client: int = param(2, "shards given to each client", at_least=1)

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool; shards differ in size by at most one."""
        num_shards = num_clients * self.per_client
        if num_shards > len(source.pool):
            raise DataError(
                f"shards:{self.per_client} with {num_clients} clients needs {num_shards} shards, "
                f"but there are only {len(source.pool)} training examples; use fewer shards or "
                "clients."
            )
        rng = numpy_generator(seed, "partition/shards")
        ordered = np.concatenate([rng.permutation(members) for members in source.by_class()])
        shards = np.array_split(ordered, num_shards)
        dealt = rng.permutation(num_shards).reshape(num_clients, self.per_client)
        return [np.concatenate([shards[shard] for shard in row]) for row in dealt]
