"""Transports on whose way things go wrong, for tests.

`FaultyTransport` drops, delays, duplicates, reorders and corrupts by a seeded plan, as networks do;
`Tampering` lets a test change single replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedcord.core.rng import numpy_generator
from fedcord.engine.requests import Parcel, Reply, Request, Verb, pack_replies, unpack_replies
from fedcord.engine.transport import Delivery, Transport


@dataclass(frozen=True)
class FaultPlan:
    """Shares of the answers to `verbs` that meet each fate; the rest arrive.

    Attributes:
        seed: decides who is met.
        drop: nobody was there to ask.
        delay: the work was done, but the answer comes after the deadline, and once more in a
            later exchange.
        duplicate: the request arrives twice, and so does the answer.
        corrupt: a byte of the answer is changed.
        reorder: whether answers come in any order.
        verbs: which requests are met.
        spared: clients that are never met.
    """

    seed: int = 0
    drop: float = 0.0
    delay: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    reorder: bool = False
    verbs: tuple[Verb, ...] = ("update",)
    spared: tuple[int, ...] = ()


class FaultyTransport:
    """Another transport with faults by a plan."""

    def __init__(self, inner: Transport, plan: FaultPlan) -> None:
        self.nodes = inner.nodes
        self.met: list[tuple[str, int, tuple[int, ...]]] = []
        """What happened: fate, step, clients."""
        self._inner, self._plan = inner, plan
        self._overdue: list[Delivery] = []

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """What the other transport delivers, after the plan has met it."""
        if request.verb not in self._plan.verbs:
            yield from self._inner.exchange(request, parcels, deadline)
            return
        rng = numpy_generator(self._plan.seed, f"faults-{request.verb}", request.step)
        # answers of an earlier step come now, as if they were somebody's
        found, self._overdue = [replace(late, place=0) for late in self._overdue], []
        for place, parcel in enumerate(parcels):
            for client in parcel.clients:
                alone = replace(parcel, clients=(client,))
                found += self._visited(request, place, alone, deadline, rng)
        order = rng.permutation(len(found)).tolist() if self._plan.reorder else range(len(found))
        yield from (found[place] for place in order)

    def _visited(
        self,
        request: Request,
        place: int,
        parcel: Parcel,
        deadline: float | None,
        rng: np.random.Generator,
    ) -> list[Delivery]:
        """What becomes of one client's part of a parcel."""
        fate = self._fate(parcel, rng)
        if fate != "arrive":
            self.met.append((fate, request.step, parcel.clients))
        if fate == "drop":
            return [Delivery(place, "absent", reason="unreachable", clients=parcel.clients)]
        times = 2 if fate == "duplicate" else 1
        return [
            met
            for _ in range(times)
            for delivery in self._inner.exchange(request, [parcel], deadline)
            for met in self._met(replace(delivery, place=place, clients=parcel.clients), fate, rng)
        ]

    def _fate(self, parcel: Parcel, rng: np.random.Generator) -> str:
        drawn, plan = rng.random(), self._plan
        if set(parcel.clients) & set(plan.spared):
            return "arrive"
        for fate in ("drop", "delay", "duplicate", "corrupt"):
            share = float(getattr(plan, fate))
            if drawn < share:
                return fate
            drawn -= share
        return "arrive"

    def _met(self, delivery: Delivery, fate: str, rng: np.random.Generator) -> list[Delivery]:
        if fate == "delay":
            self._overdue.append(delivery)
            return [replace(delivery, outcome="late", replies=(), reason="no answer in time")]
        if fate == "corrupt":
            return [replace(delivery, replies=_corrupted(delivery, rng))]
        return [delivery]

    def close(self) -> None:
        """As the other transport."""
        self._inner.close()


class Tampering:
    """Another transport whose replies pass through a function."""

    def __init__(self, inner: Transport, change: Callable[[Request, Reply], Reply]) -> None:
        self.nodes = inner.nodes
        self._inner, self._change = inner, change

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """What the other transport delivers, changed."""
        for delivery in self._inner.exchange(request, parcels, deadline):
            replies = delivery.replies
            if isinstance(replies, bytes):
                read = unpack_replies(replies)
                assert isinstance(read, list)
                replies = read
            yield replace(delivery, replies=[self._change(request, reply) for reply in replies])

    def close(self) -> None:
        """As the other transport."""
        self._inner.close()


def _corrupted(delivery: Delivery, rng: np.random.Generator) -> bytes:
    """The answer as bytes, its header spoiled so that it cannot be read."""
    replies = delivery.replies
    content = bytearray(replies if isinstance(replies, bytes) else pack_replies(replies))
    content[int(rng.integers(8))] ^= 0xFF  # somewhere in the length of the header
    return bytes(content)
