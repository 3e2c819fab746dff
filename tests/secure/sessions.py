"""Sessions of the protocol for tests: sites, a server, and who drops out when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedcord.secure.primitives import Vector
from fedcord.secure.site import Site
from fedcord.secure.tally import Tally

SESSION = "run/3/attempt"


def numbers(client: int, length: int = 40) -> Vector:
    """A site's numbers, small as real messages' are."""
    return np.random.default_rng(client).integers(0, 1000, length, dtype=np.uint64)


@dataclass
class Session:
    """Everybody of a session in one place, one phase after the other."""

    clients: Sequence[int]
    threshold: int
    sites: dict[int, Site] = field(default_factory=dict)
    messages: dict[int, Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tally = Tally(SESSION, self.threshold)
        self.sites = {k: Site.begin(k, SESSION) for k in self.clients}
        self.tally.roster = {k: site.public_keys for k, site in self.sites.items()}

    def share(self, without: Collection[int] = ()) -> Session:
        for k in set(self.clients) - set(without):
            site, self.tally.sealed[k] = self.sites[k].share(self.tally.roster, self.threshold)
            self.sites[k] = Site.from_bytes(site.to_bytes())  # as kept by a process that ends
        return self

    def mask(self, without: Collection[int] = ()) -> Session:
        for k in self.tally.committed:
            if k not in without:
                site, self.messages[k] = self.sites[k].mask(numbers(k), self.tally.committed)
                self.tally.add(k, self.messages[k])
                self.sites[k] = Site.from_bytes(site.to_bytes())
        return self

    def reveal(self, without: Collection[int] = ()) -> dict[int, dict[int, bytes]]:
        revealed = {}
        for k in self.tally.survivors:
            if k not in without:
                told = self.tally.survivors, self.tally.shares_for(k)
                self.sites[k], revealed[k] = self.sites[k].unmask(*told)
        return revealed

    def plain_sum(self) -> Vector:
        return sum((numbers(k) for k in self.tally.survivors), np.zeros(40, dtype=np.uint64))
