"""What a way to reach nodes must be able to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fedcord.core.contract import ClientId
from fedcord.engine.requests import Parcel, Reply, Request, failure_in

PARCELS_PER_NODE = 3
"""Parcels each node gets at least, so that a large one does not leave the others idle."""

Outcome = Literal["arrived", "refused", "late", "absent"]


@dataclass(frozen=True)
class Delivery:
    """What became of a parcel.

    Attributes:
        place: the parcel's place among those sent.
        outcome: `arrived` with replies, `refused` by the node or on the way with a reason, `late`
            when the answer did not come before the deadline, `absent` when nobody was there to ask.
        replies: as bytes, or as they are where nothing needs encoding.
        node: which node answered.
        reason: of everything but an arrival.
        sent: bytes of the message that went there, 0 where it needed no encoding.
        clients: whom of the parcel it is about; None: all.
    """

    place: int
    outcome: Outcome
    replies: bytes | Sequence[Reply] = ()
    node: int = 0
    reason: str = ""
    sent: int = 0
    clients: tuple[ClientId, ...] | None = None


def answer_of(place: int, node: int, answer: bytes, sent: int) -> Delivery:
    """The delivery of what somebody else's machine has answered.

    What fails there fails there only: it is a refusal with a reason, and no failure of the run.
    """
    failure = failure_in(answer)
    if failure is not None:
        return Delivery(place, "refused", node=node, reason=str(failure), sent=sent)
    return Delivery(place, "arrived", answer, node, sent=sent)


class Transport(Protocol):
    """A way to reach nodes; the only thing in which engines differ."""

    @property
    def nodes(self) -> Sequence[int]:
        """Who is there to be asked."""
        ...

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """Send every parcel with the request and yield what becomes of each, in any order.

        Few answers are held at once: a parcel is not sent long before those ahead of it have been
        answered. `deadline` is in seconds from now; nothing arrives after it.
        """
        ...

    def close(self) -> None:
        """Release processes and files."""
        ...
