"""`quantity:β`: clients differ in size only; sizes follow Dirichlet(β), labels are random.

Reference: Li et al., "Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import MAX_DRAWS, Indices, Source, redraw


@dataclass(frozen=True)
class Quantity:
    """Quantity skew without label skew."""

    beta: float = param(
        0.5, "concentration; smaller is more unequal (paper: β)", above=0, at_most=1e6
    )
    min: int = param(0, "smallest number of examples a client may have", at_least=0)

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool."""
        rng = numpy_generator(seed, "partition/quantity")
        total = len(source.pool)
        concentration = np.full(num_clients, self.beta)

        def draw_cuts() -> Indices:  # [K-1]
            shares = np.cumsum(rng.dirichlet(concentration))[:-1]
            return np.minimum(np.floor(shares * total).astype(np.int64), total)

        def is_large_enough(cuts: Indices) -> bool:
            return bool(np.diff(cuts, prepend=0, append=total).min() >= self.min)

        cuts = redraw(draw_cuts, is_large_enough)
        if cuts is None:
            raise DataError(
                f"quantity:{self.beta:g},min={self.min}: in {MAX_DRAWS} draws of {total} examples "
                f"over {num_clients} clients the smallest client never had {self.min}; lower min, "
                "raise beta or use fewer clients."
            )
        return np.split(rng.permutation(source.pool), cuts)
