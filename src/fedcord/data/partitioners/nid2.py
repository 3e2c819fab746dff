"""`nid2`: clients that know one class each, and a last one that knows them all.

From FedHPro, where it has seven clients. The class choice and the shares of the paper
are unknown; here the K−1 biased clients get distinct random classes (repeating only when there are
fewer classes than that), each the fraction `biased_share` of its class, and everything else goes to
the last client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source
from fedcord.data.share import floor_share

PAPER_CLIENTS = 7


@dataclass(frozen=True)
class Nid2:
    """One-class clients and one client with all classes, which is the last."""

    biased_share: float = param(
        0.5, "fraction of a class that goes to its one-class client", above=0, below=1
    )

    def problems(self, num_clients: int) -> list[str]:
        """Needs a biased and an unbiased client."""
        if num_clients == 1:
            return [
                "clients = 1: nid2 needs at least 2, one-class clients and one with all classes "
                f"(the paper has {PAPER_CLIENTS})."
            ]
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool; without a number, seven clients as in the paper."""
        rng = numpy_generator(seed, "partition/nid2")
        num_biased = (num_clients or PAPER_CLIENTS) - 1
        classes = [rng.permutation(members) for members in source.by_class()]
        present = [c for c, members in enumerate(classes) if len(members)]
        chosen = np.resize(rng.permutation(present), num_biased)
        parts: list[Indices] = [np.empty(0, dtype=np.int64)] * num_biased
        for c in set(chosen.tolist()):
            owners = np.flatnonzero(chosen == c)
            count = floor_share(self.biased_share, len(classes[c]))
            for owner, part in zip(
                owners, np.array_split(classes[c][:count], len(owners)), strict=True
            ):
                parts[owner] = part
            classes[c] = classes[c][count:]
        return [*parts, np.concatenate(classes)]
