"""Who was sent what: a final model need not travel to those who have it already.

The bytes of two methods compare only if both end with every client able to predict, and if neither
is charged for what follows from the seed. So what everybody is sent is remembered by name, content
and receiver, and at the end it is known what is still to be delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch import Tensor

from fedcord.core.contract import ClientId
from fedcord.core.tensors import Tensors, hash_tensors, num_bytes


class Holders:
    """By name of a tensor the last version that was sent, and to whom."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[str, frozenset[ClientId]]] = {}
        self._hashed: dict[str, tuple[Tensor, str]] = {}

    def note(self, tensors: Tensors, clients: Collection[ClientId]) -> None:
        """These clients have these tensors now."""
        receivers = frozenset(clients)
        for name, tensor in tensors.items():
            digest = self._digest(name, tensor)
            version, holders = self._versions.get(name, ("", frozenset()))
            self._versions[name] = digest, receivers | holders if version == digest else receivers

    def lacking(self, tensors: Tensors, clients: Collection[ClientId]) -> int:
        """Bytes that are to be sent until all these clients have all these tensors."""
        total = 0
        for name, tensor in tensors.items():
            version, holders = self._versions.get(name, ("", frozenset()))
            has_it = holders if version == self._digest(name, tensor) else frozenset()
            total += num_bytes({name: tensor}) * len(set(clients) - has_it)
        return total

    def plain(self, names: Iterable[str]) -> list[Any]:
        """What is known of these names, as JSON can hold it: groups of names and receivers."""
        groups: dict[frozenset[ClientId], dict[str, str]] = {}
        for name in names:
            if name in self._versions:
                version, holders = self._versions[name]
                groups.setdefault(holders, {})[name] = version
        return [[versions, sorted(holders)] for holders, versions in groups.items()]

    def restore(self, groups: Iterable[tuple[Mapping[str, str], Iterable[ClientId]]]) -> None:
        """The inverse of `plain`."""
        for versions, clients in groups:
            holders = frozenset(clients)
            self._versions |= {name: (version, holders) for name, version in versions.items()}

    def _digest(self, name: str, tensor: Tensor) -> str:
        known = self._hashed.get(name)
        if known is None or known[0] is not tensor:  # most of it is sent again and again
            known = self._hashed[name] = tensor, hash_tensors({"": tensor})
        return known[1]
