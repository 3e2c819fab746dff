"""The plain transport: the node is an object in this process and is called.

Nothing is encoded, since encoding changes no bit (the `wire` transport shows it), and answers are
made when they are asked for, so that only one parcel's replies are held at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fedcord.engine.node import ClientNode
from fedcord.engine.requests import Parcel, Request
from fedcord.engine.transport import Delivery


class SequentialTransport:
    """Reaches one node by calling it."""

    nodes: Sequence[int] = (0,)

    def __init__(self, node: ClientNode) -> None:
        self._node = node

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """One parcel after the other; those whose turn comes after the deadline are late."""
        started = time.monotonic()
        for place, parcel in enumerate(parcels):
            replies = list(self._node.answer(request, parcel))
            if deadline is not None and time.monotonic() - started > deadline:
                for late in range(place, len(parcels)):
                    yield Delivery(late, "late", reason=f"no answer within {deadline:g} s")
                return
            yield Delivery(place, "arrived", replies)

    def close(self) -> None:
        """Nothing to release."""
