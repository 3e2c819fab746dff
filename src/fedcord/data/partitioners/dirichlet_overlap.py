"""`dirichlet-overlap:α`: Dirichlet label skew in which clients may hold the same examples.

The partition of FAFI's released code, for parity with its results; use `dirichlet` for new work.
Each class draws its own q ~ Dir(α); client k gets min(n_c, round(scale · n_0 · q_k)) examples of
class c, sampled afresh for every client, where n_0 is the size of class 0 even when classes differ
in size. The clients' total therefore exceeds the data set.

All proportions come from NumPy's legacy generator, one draw per class and nothing in between: so
the published client sizes are met exactly. Which examples fill them has no published reference;
they are sampled from a stream of their own, at a cost that follows the number of examples dealt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source, redraw


@dataclass(frozen=True)
class DirichletOverlap:
    """Overlapping Dirichlet label skew."""

    alpha: float = param(
        0.5, "concentration; smaller is more skewed (paper: α)", above=0, at_most=1e6
    )
    scale: float = param(10.0, "how many times class 0 is distributed per class", above=0)

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Parts without repeats inside a client; an example may be with several clients or none."""
        classes = source.by_class()
        if len(classes[0]) == 0:
            raise DataError(
                "dirichlet-overlap measures every class by the size of class 0, which has no "
                "example here; use dirichlet, or number the classes so that class 0 has examples."
            )
        rs = np.random.RandomState(seed % 2**32)
        rng = numpy_generator(seed, "partition/dirichlet-overlap")
        dealt = self.scale * len(classes[0])
        shares = [self._draw(rs, num_clients) for _ in classes]
        parts: list[list[Indices]] = [[] for _ in range(num_clients)]
        for members, share in zip(classes, shares, strict=True):
            for k in range(num_clients):
                count = min(len(members), round(dealt * float(share[k])))
                parts[k].append(rng.choice(members, count, replace=False, shuffle=False))
        return [np.concatenate(part) for part in parts]

    def _draw(self, rs: np.random.RandomState, num_clients: int) -> NDArray[np.float64]:
        # the legacy generator underflows to 0/0 for tiny α
        share = redraw(
            lambda: rs.dirichlet(np.full(num_clients, self.alpha)),
            lambda drawn: bool(np.isfinite(drawn).all()),
        )
        if share is None:
            raise DataError(
                f"dirichlet-overlap:{self.alpha:g} is too small for NumPy's legacy generator to "
                "draw proportions; raise alpha (0.001 works) or use dirichlet."
            )
        return share
