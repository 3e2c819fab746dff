"""The strict transport for tests: only bytes cross, and nothing but memory survives a call.

Each parcel goes to a node rebuilt from plain values, which answers in bytes; parcels are handled in
a shuffled order. An algorithm that gives the same bits here as in the sequential engine hides no
state and can be deployed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fedcord.core.rng import numpy_generator
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.memory_store import InProcessMemory, MemoryStore
from fedcord.engine.node import Agreement, ClientNode, DataSource
from fedcord.engine.requests import Parcel, Request, join, pack_parcel, pack_request
from fedcord.engine.reuse import WorkCache
from fedcord.engine.transport import Delivery


class WireTransport:
    """Reaches a node as a network would, within this process."""

    nodes: Sequence[int] = (0,)

    def __init__(
        self,
        blueprint: Blueprint,
        source: DataSource,
        store: MemoryStore | None = None,
        agreement: Agreement | None = None,
        cache: WorkCache | None = None,
    ) -> None:
        self._blueprint = blueprint.to_json()
        self._source = source
        self._store = store or InProcessMemory(as_bytes=True)
        self._agreement = agreement
        self._cache = cache

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """Answers in the order they were made, which is not that of the parcels."""
        started = time.monotonic()
        message = pack_request(request)
        order = numpy_generator(request.seed, "wire-order", request.round).permutation(len(parcels))
        for place in order.tolist():
            node = ClientNode.of(
                Blueprint.from_json(self._blueprint),
                self._source,
                self._store,
                self._agreement,
                self._cache,
            )
            call = join([message, pack_parcel(parcels[place])])
            reply = node.handle(call)
            if deadline is not None and time.monotonic() - started > deadline:
                yield Delivery(place, "late", reason=f"no answer within {deadline:g} s")
            else:
                yield Delivery(place, "arrived", reply, sent=len(call))

    def close(self) -> None:
        """Nothing to release."""
