"""The strict transport: only bytes cross, to nodes that are functions of bytes.

A simulation is one node, rebuilt from plain values for each parcel, so that nothing but memory
survives a call; parcels are handled in a shuffled order. An algorithm that gives the same bits here
as in the sequential engine hides no state and can be deployed. Several nodes are several sites, as
they would be behind a network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from fedcord.core.rng import numpy_generator
from fedcord.engine.agreement import Agreement
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.memory_store import InProcessMemory, MemoryStore
from fedcord.engine.node import ClientNode, DataSource
from fedcord.engine.requests import Parcel, Request, join, pack_parcel, pack_request
from fedcord.engine.reuse import WorkCache
from fedcord.engine.transport import Delivery, answer_of

Handler = Callable[[bytes], bytes]
"""What a node is to the outside: a packed call in, packed replies out."""


class WireTransport:
    """Reaches nodes as a network would, within this process."""

    def __init__(self, handlers: Mapping[int, Handler], are_sites: bool = False) -> None:
        """Who is there.

        Args:
            handlers: by node; somebody who is taken out of it is absent from then on.
            are_sites: whether nodes stand for others' machines, whose failures are theirs only.
        """
        self._handlers = handlers
        self._are_sites = are_sites

    @staticmethod
    def rebuilding(
        blueprint: Blueprint,
        source: DataSource,
        store: MemoryStore | None = None,
        agreement: Agreement | None = None,
        cache: WorkCache | None = None,
    ) -> WireTransport:
        """One node with all clients, made anew from plain values for every call."""
        text, memory = blueprint.to_json(), store or InProcessMemory(as_bytes=True)

        def handle(call: bytes) -> bytes:
            plan = Blueprint.from_json(text)
            return ClientNode.of(plan, source, memory, agreement, cache).handle(call)

        return WireTransport({0: handle})

    @property
    def nodes(self) -> Sequence[int]:
        """Who is there to be asked."""
        return tuple(self._handlers)

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """Answers in the order they were made, which is not that of the parcels."""
        started = time.monotonic()
        message = pack_request(request)
        order = numpy_generator(request.seed, "wire-order", request.round).permutation(len(parcels))
        for place in order.tolist():
            parcel, nodes = parcels[place], self.nodes
            node = parcel.node
            if node is None and nodes:
                node = nodes[place % len(nodes)]
            if node is None or node not in self._handlers:
                yield Delivery(place, "absent", node=node or 0, reason="nobody is there")
                continue
            call = join([message, pack_parcel(parcel)])
            reply = self._handlers[node](call)
            if deadline is not None and time.monotonic() - started > deadline:
                yield Delivery(place, "late", node=node, reason=f"no answer within {deadline:g} s")
            elif self._are_sites:
                yield answer_of(place, node, reply, len(call))
            else:
                yield Delivery(place, "arrived", reply, node, sent=len(call))

    def close(self) -> None:
        """Nothing to release."""
