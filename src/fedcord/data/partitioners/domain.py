"""`domain`: every client draws from one domain only (feature skew), as in FedHPro.

Clients of one domain get disjoint random draws of equal share. `allocation` says how many clients
each domain has, as in `mnist:3/usps:6`; `share` which fraction of its domain a client gets. Without
them the published setting is used where domains and number of clients fit it, else clients are
spread over the domains and a domain over its clients as evenly as possible. Which client number
gets which domain is a seeded permutation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError, unknown_name
from fedcord.core.params import param
from fedcord.core.rng import numpy_generator
from fedcord.data.partitioners.partitioner import Indices, Source
from fedcord.data.share import floor_share

KEY = "domain"

PUBLISHED: tuple[tuple[Mapping[str, int], float], ...] = (
    ({"mnist": 3, "usps": 6, "svhn": 6, "syn": 5}, 0.01),
    ({"mnist": 3, "usps": 6, "svhn": 6, "mnist-m": 5}, 0.01),  # stands in for SYN
    ({"caltech": 3, "amazon": 2, "webcam": 1, "dslr": 4}, 0.2),
)
"""Clients per domain, and the share of its domain that each client gets."""


@dataclass(frozen=True)
class Domain:
    """One domain per client."""

    allocation: str = param("", "clients per domain, as in mnist:3/usps:6; empty: automatic")
    share: float | None = param(
        None, "fraction of its domain a client gets; left out: automatic", above=0, at_most=1
    )

    def problems(self, num_clients: int) -> list[str]:
        """The allocation must be readable and add up to the number of clients."""
        allocation, problems = _parse(self.allocation)
        total = sum(allocation.values())
        if self.allocation and not problems and num_clients not in (0, total):
            problems.append(
                f"allocation = '{self.allocation}' is for {total} clients, but {num_clients} were "
                "asked for; make the two agree."
            )
        return problems

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts, one domain each; they cover the pool when `share` is left out."""
        domains = _domains(source)
        allocation, share = self._plan(list(domains), num_clients)
        rng = numpy_generator(seed, "partition/domain")
        parts: list[Indices] = []
        for name, members in domains.items():
            count = allocation.get(name, 0)
            if count:
                parts += self._deal(name, rng.permutation(members), count, share)
        return [parts[k] for k in rng.permutation(len(parts))]

    def client_names(self, source: Source, parts: Sequence[Indices]) -> tuple[str, ...]:
        """The domain, with a number where several clients share one."""
        domains = [source.value_name(KEY, source.groups[KEY][part[0]]) for part in parts]
        clients_of, place = Counter(domains), Counter[str]()
        names = []
        for name in domains:
            place[name] += 1
            names.append(f"{name} {place[name]}" if clients_of[name] > 1 else name)
        return tuple(names)

    def _plan(self, names: list[str], num_clients: int) -> tuple[Mapping[str, int], float | None]:
        """Clients per domain and the share of each; None shares a domain evenly."""
        if self.allocation:
            allocation, _ = _parse(self.allocation)
            for name in allocation:
                if name not in names:
                    raise DataError(unknown_name("domain", name, names))
            return allocation, self.share
        for published, share in PUBLISHED:
            spelled = {name.lower(): name for name in names}
            if spelled.keys() == published.keys() and num_clients in (0, sum(published.values())):
                allocation = {spelled[name]: count for name, count in published.items()}
                return allocation, self.share or share
        num_clients = num_clients or len(names)
        if num_clients < len(names):
            raise DataError(
                f"{num_clients} clients cannot cover the {len(names)} domains {', '.join(names)}; "
                f"use at least {len(names)} clients, or choose domains by allocation=NAME:COUNT/…"
            )
        base, extra = divmod(num_clients, len(names))
        return {name: base + (i < extra) for i, name in enumerate(names)}, self.share

    def _deal(self, name: str, members: Indices, count: int, share: float | None) -> list[Indices]:
        if count > len(members):
            raise DataError(
                f"domain '{name}' has {len(members)} training examples for {count} clients; give "
                "it fewer clients by allocation=NAME:COUNT/…"
            )
        if share is None:
            return list(np.array_split(members, count))
        size = max(1, floor_share(share, len(members)))
        if size * count > len(members):
            raise DataError(
                f"share = {share:g} for each of the {count} clients of domain '{name}' asks for "
                f"more than its {len(members)} examples; use a share of at most 1/{count}."
            )
        return [members[k * size : (k + 1) * size] for k in range(count)]


def _domains(source: Source) -> dict[str, Indices]:
    """The pool by domain name, in the order of the domains' numbers."""
    if KEY not in source.groups:
        others = ", ".join(sorted(source.groups)) or "none"
        raise DataError(
            "the domain partition needs a data set whose examples carry a domain, such as "
            f"office-caltech10; groups of this one: {others} (see natural:KEY)."
        )
    group = source.groups[KEY]
    return {
        source.value_name(KEY, value): source.pool[group[source.pool] == value]
        for value in np.unique(group)
    }


def _parse(text: str) -> tuple[dict[str, int], list[str]]:
    """`mnist:3/usps:6` as a mapping, and what is wrong with it."""
    allocation: dict[str, int] = {}
    problems: list[str] = []
    for entry in text.split("/") if text else ():
        name, colon, count = (part.strip() for part in entry.rpartition(":"))
        if not (colon and name and count.isdecimal() and count.isascii()):
            problems.append(
                f"allocation entry '{entry}' is not NAME:COUNT; write it as mnist:3/usps:6."
            )
        elif name in allocation:
            problems.append(f"allocation names '{name}' twice; name every domain once.")
        else:
            allocation[name] = int(count)
    if text and not problems and not sum(allocation.values()):
        problems.append(f"allocation = '{text}' has no client; give a domain at least one.")
    return allocation, problems
