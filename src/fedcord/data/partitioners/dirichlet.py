"""`dirichlet:α`: label skew; each class is spread over the clients in Dirichlet(α) proportions.

Reference: Li et al., "Federated Learning on Non-IID Data Silos: An Experimental Study", ICDE 2022,
which writes β for α.

The usual disjoint form, covering every example exactly once. Small α gives most of a class to one
client; large α approaches equal shares. Clients may end up empty unless `min` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import MAX_DRAWS, Indices, Source, redraw


@dataclass(frozen=True)
class Dirichlet:
    """Disjoint Dirichlet label skew."""

    alpha: float = param(0.5, "concentration α; smaller is more skewed", above=0, at_most=1e6)
    min: int = param(0, "smallest number of examples a client may have", at_least=0)

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool."""
        rng = numpy_generator(seed, "partition/dirichlet")
        classes = source.by_class()
        sizes = np.array([len(members) for members in classes])
        concentration = np.full(num_clients, self.alpha)

        def draw_cuts() -> Indices:  # [C, K+1], where each class is cut
            shares = np.cumsum(rng.dirichlet(concentration, size=len(sizes)), axis=1)
            inner = np.floor(shares[:, :-1] * sizes[:, None]).astype(np.int64)
            inner = np.minimum(inner, sizes[:, None])
            return np.column_stack([np.zeros_like(sizes), inner, sizes])

        def is_large_enough(cuts: Indices) -> bool:
            return bool(np.diff(cuts, axis=1).sum(axis=0).min() >= self.min)

        cuts = redraw(draw_cuts, is_large_enough)
        if cuts is None:
            raise DataError(
                f"dirichlet:{self.alpha:g},min={self.min}: in {MAX_DRAWS} draws of "
                f"{len(source.pool)} examples over {num_clients} clients the smallest client "
                f"never had {self.min}; lower min, raise alpha or use fewer clients."
            )
        shuffled = [rng.permutation(members) for members in classes]
        return [
            np.concatenate(
                [members[cut[k] : cut[k + 1]] for members, cut in zip(shuffled, cuts, strict=True)]
            )
            for k in range(num_clients)
        ]
