"""`nid1:α`: Dirichlet label skew with full buckets and a final re-cut into equal sizes.

The partition of published prototype results (FedHPro's public code), draw for draw: NumPy's legacy
generator, one shuffle of the examples in class order, then Dirichlet proportions per class in which
clients that already hold N/K examples get nothing more; the whole is drawn again while the smallest
client is below half of N/K. The re-cut concatenates the clients and cuts into equal parts, which
mixes the classes of neighbours: this is *not* a pure Dirichlet split, hence its own name.
`recut=false` leaves the clients as drawn, with 10 examples at least where N/K is 20 or more.

More than ten clients are dealt in groups of ten from consecutive pieces of the shuffled list.

Deviations from the authors' code: the number of draws is bounded, and a proportion vector that
vanishes altogether is drawn again (theirs would loop or divide by zero).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.core.params import param
from fedcord.data.partitioners.partitioner import MAX_DRAWS, Indices, Source, redraw

GROUP = 10
"""Clients dealt together."""


@dataclass(frozen=True)
class Nid1:
    """Balanced Dirichlet label skew."""

    alpha: float = param(
        0.5, "concentration; smaller is more skewed (paper: α)", above=0, at_most=1e6
    )
    recut: bool = param(True, "cut the result into equal parts, as the reference does")

    def problems(self, num_clients: int) -> list[str]:
        """Nothing beyond the ranges of the parameters."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool."""
        rs = np.random.RandomState(seed % 2**32)
        shuffled = np.concatenate(source.by_class())
        rs.shuffle(shuffled)
        num_groups = -(-num_clients // GROUP)
        size = GROUP * len(shuffled) // num_clients
        parts: list[Indices] = []
        for group in range(num_groups):
            last = group == num_groups - 1
            piece = shuffled[group * size : None if last else (group + 1) * size]
            members = num_clients - group * GROUP if last else GROUP
            parts += self._deal(piece, source, members, rs)
        return parts

    def _deal(
        self, piece: Indices, source: Source, num_clients: int, rs: np.random.RandomState
    ) -> list[Indices]:
        labels = source.labels[piece]
        classes = [piece[labels == c] for c in range(source.num_classes)]
        sizes = [len(members) for members in classes]
        half = len(piece) // (2 * num_clients)
        smallest = half if self.recut else min(10, half)
        cuts = redraw(
            lambda: self._draw_cuts(sizes, num_clients, rs),
            lambda drawn: drawn is not None and bool(_dealt(drawn).min() >= smallest),
        )
        if cuts is None:
            raise DataError(
                f"nid1:{self.alpha:g}: in {MAX_DRAWS} draws of {len(piece)} examples over "
                f"{num_clients} clients the smallest client never had {smallest}; raise alpha, "
                "use fewer clients, or take dirichlet, which allows small clients."
            )
        parts = [
            np.concatenate([m[cut[k] : cut[k + 1]] for m, cut in zip(classes, cuts, strict=True)])
            for k in range(num_clients)
        ]
        return list(np.array_split(np.concatenate(parts), num_clients)) if self.recut else parts

    def _draw_cuts(
        self, sizes: list[int], num_clients: int, rs: np.random.RandomState
    ) -> Indices | None:
        """[C, K+1] where each class is cut, or None when no proportions could be drawn."""
        full = sum(sizes) / num_clients
        cuts = np.zeros((len(sizes), num_clients + 1), dtype=np.int64)
        for c, size in enumerate(sizes):
            held = _dealt(cuts[:c])
            share = redraw(
                lambda held=held: self._draw_shares(held < full, rs),  # type: ignore[misc]
                lambda drawn, size=size: size == 0 or bool(drawn.sum() > 0),  # type: ignore[misc]
            )
            if share is None:
                return None
            if size:
                cuts[c, 1:-1] = np.floor(np.cumsum(share / share.sum())[:-1] * size)
                cuts[c, -1] = size
        return cuts

    def _draw_shares(
        self, has_room: NDArray[np.bool_], rs: np.random.RandomState
    ) -> NDArray[np.float64]:
        # tiny α underflows to 0/0 in the legacy generator; zeros make the caller draw again
        drawn = np.nan_to_num(rs.dirichlet(np.full(len(has_room), self.alpha)), nan=0.0)
        return np.where(has_room, drawn, 0.0)


def _dealt(cuts: Indices) -> Indices:
    """[K] examples per client, from [C, K+1] cuts."""
    dealt: Indices = np.diff(cuts, axis=1).sum(axis=0)
    return dealt
