"""`natural:KEY`: one client per value the data themselves carry, such as a writer or a hospital."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import DataError, unknown_name
from fedcord.core.params import param
from fedcord.data.partitioners.partitioner import Indices, Source


@dataclass(frozen=True)
class Natural:
    """One client per value of a group, in ascending order of the values."""

    key: str = param("", "which group of the data set names the client")

    def problems(self, num_clients: int) -> list[str]:
        """Groups are known only with the data."""
        return []

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """Disjoint parts that cover the pool; the data decide how many."""
        if not source.groups:
            raise DataError(
                f"natural:{self.key} needs a data set whose examples carry groups, and this one "
                "has none; use another partition such as dirichlet:0.1."
            )
        if self.key not in source.groups:
            raise DataError(unknown_name("group", self.key, source.groups))
        group = source.groups[self.key]
        values = np.unique(group)  # of all examples: the long-tail filter must not renumber clients
        if num_clients not in (0, len(values)):
            raise DataError(
                f"natural:{self.key} makes {len(values)} clients, one per value in the data, but "
                f"{num_clients} were asked for; leave the number of clients out or say "
                f"{len(values)}."
            )
        own = group[source.pool]
        by_value = np.argsort(own, kind="stable")  # one sort instead of a search per client
        cuts = np.searchsorted(own[by_value], values[1:])
        return np.split(source.pool[by_value], cuts)

    def client_names(self, source: Source, parts: Sequence[Indices]) -> tuple[str, ...]:
        """The values' names."""
        values = np.unique(source.groups[self.key])
        return tuple(source.value_name(self.key, value) for value in values)
