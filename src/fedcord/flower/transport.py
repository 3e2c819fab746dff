"""The way to nodes that sit behind Flower's SuperNodes.

Flower knows nodes by random numbers; here they are counted in the order in which they were first
seen. A node is given one message at a time, as it does one at a time. What Flower says instead of a
node comes from the SuperLink, so whom it is about is told by the message it replies to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedcord.core.errors import ProtocolError
from fedcord.engine.requests import Parcel, Request, join, pack_parcel, pack_request
from fedcord.engine.transport import Delivery, Outcome, answer_of
from fedcord.flower.messages import TERMS, from_records, to_records

MESSAGE_TYPE = "query"
"""Flower tells training from asking; a node reads in the bytes what is asked."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two looks for answers, longer the longer there was none."""
ROLL_SECONDS = 3.0
"""Between two looks at who is there."""
MESSAGE_DAYS = 30.0
"""Flower drops messages that are older; by default after half a day."""

OUTCOMES: Mapping[int, Outcome] = {
    ErrorCode.NODE_UNAVAILABLE: "absent",
    ErrorCode.MESSAGE_UNAVAILABLE: "late",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "late",
}
"""What Flower's errors mean to us; all others are refusals."""
MEANINGS = {
    ErrorCode.NODE_UNAVAILABLE: "its SuperNode is gone",
    ErrorCode.MESSAGE_UNAVAILABLE: "its answer was lost on the way",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "its answer was lost on the way",
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "its app does not start",
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "its app failed",
    ErrorCode.CLIENT_APP_CRASHED: "its app crashed",
    ErrorCode.INVALID_FAB: "it does not trust the app",
}
LONGEST_REASON = 300
"""Characters of what Flower says about an error; the rest is its traceback."""


UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""What Flower raises when the pieces of an answer do not fit together."""


@dataclass(frozen=True)
class _Asked:
    place: int
    node: int
    sent: int


class FlowerTransport:
    """Reaches every node that is connected to a SuperLink, also those that come later."""

    def __init__(self, grid: Grid, terms: str) -> None:
        """Over a grid.

        Args:
            grid: as Flower gives it to a ServerApp.
            terms: of the run, which go with every message.
        """
        self._grid = grid
        self._words = {TERMS: terms}
        self._seen: list[int] = []  # Flower's numbers; their place is ours
        self._present: set[int] = set()
        self._looked_at = -ROLL_SECONDS
        self._late: dict[str, _Asked] = {}  # what nodes were still busy with after a deadline

    @property
    def nodes(self) -> Sequence[int]:
        """Who is connected now."""
        self._look()
        return sorted(self._present)

    def wait_for(self, count: int, seconds: float, tell: Callable[[int], None]) -> None:
        """Wait until `count` nodes are there or the time is over; `tell` hears how many are."""
        ends = time.monotonic() + seconds
        while True:
            self._look(soon=False)
            tell(len(self._present))
            if len(self._present) >= count or time.monotonic() >= ends:
                return
            time.sleep(LONGEST_PAUSE)

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """Send each parcel as soon as its node is free; answers in the order they come."""
        body = pack_request(request)
        ends = None if deadline is None else time.monotonic() + deadline
        waiting, asked, pause = list(range(len(parcels))), dict[str, _Asked](), SHORTEST_PAUSE
        self._look()
        while waiting or asked:
            unsent = []
            self._hear_the_late()
            for place in waiting:
                node = self._free_node(parcels[place], asked)
                if node is None:
                    unsent.append(place)
                elif node not in self._present:
                    yield Delivery(place, "absent", node=node, reason="it is not connected")
                else:
                    call = join([body, pack_parcel(parcels[place])])
                    message_id = self._push(node, call)
                    if message_id is None:
                        reason = "Flower did not take the message"
                        yield Delivery(place, "refused", node=node, reason=reason)
                    else:
                        asked[message_id] = _Asked(place, node, len(call))
            waiting = unsent
            deliveries = list(self._pulled(asked))
            yield from deliveries
            if ends is not None and time.monotonic() >= ends:
                late = waiting + [one.place for one in asked.values()]
                for place in sorted(late):
                    yield Delivery(place, "late", reason=f"no answer within {deadline:g} s")
                self._late |= asked
                return
            if deliveries:
                pause = SHORTEST_PAUSE
            elif waiting or asked:
                time.sleep(pause if ends is None else min(pause, max(0.0, ends - time.monotonic())))
                pause = min(1.5 * pause, LONGEST_PAUSE)
                self._look()

    def _free_node(self, parcel: Parcel, asked: Mapping[str, _Asked]) -> int | None:
        """Where a parcel can go now, also if nobody is there any more; None: not yet."""
        taken = {one.node for one in asked.values()}
        if parcel.node is not None:
            return None if parcel.node in taken else parcel.node
        if not self._present:
            return 0  # nobody is there at all
        # what anybody can do does not wait for who is busy with the past, unless all are
        idle = self._present - {one.node for one in self._late.values()} or self._present
        return min(idle - taken, default=None)

    def _hear_the_late(self) -> None:
        """Whose answer has come after all, or never will, is no longer busy; it counts no more."""
        if self._late:
            for message_id, _ in self._replies(list(self._late)):
                self._late.pop(message_id, None)

    def _push(self, node: int, call: bytes) -> str | None:
        content = to_records(call, self._words)
        to = self._seen[node]
        message = Message(content, to, MESSAGE_TYPE, ttl=MESSAGE_DAYS * 86400)
        pushed = list(self._grid.push_messages([message]))  # nothing or None: it was too large
        return pushed[0] if pushed else None

    def _pulled(self, asked: dict[str, _Asked]) -> Iterator[Delivery]:
        """What has come since the last look, taken off the list of what was asked."""
        if not asked:
            return
        for message_id, found in self._replies(list(asked)):
            one = asked.pop(message_id, None)
            if one is not None:  # a second answer to the same message is nobody's
                yield _delivery(one, found)

    def _replies(self, message_ids: Sequence[str]) -> Iterator[tuple[str, Message | Exception]]:
        """One by one where taking them together fails: one that cannot be read spoils no other."""
        try:
            for message in self._grid.pull_messages(message_ids):
                yield message.metadata.reply_to_message_id, message
        except UNREADABLE as error:
            if len(message_ids) == 1:
                yield message_ids[0], error
            else:
                for message_id in message_ids:
                    yield from self._replies([message_id])

    def _look(self, soon: bool = True) -> None:
        """See who is there, unless somebody has just looked."""
        now = time.monotonic()
        if soon and now - self._looked_at < ROLL_SECONDS:
            return
        self._looked_at = now
        there = set(self._grid.get_node_ids())
        self._seen += sorted(there.difference(self._seen))
        self._present = {node for node, known in enumerate(self._seen) if known in there}

    def close(self) -> None:
        """Nothing to release: Flower closes its own grid."""


def _delivery(asked: _Asked, found: Message | Exception) -> Delivery:
    """What became of a parcel, by what came back for it."""
    place, node, sent = asked.place, asked.node, asked.sent
    if isinstance(found, Exception):
        reason = f"its answer is unreadable: {_short(str(found))}"
        return Delivery(place, "refused", node=node, reason=reason, sent=sent)
    if found.has_error():
        code, said = found.error.code, _short(found.error.reason or "")
        reason = MEANINGS.get(code, f"Flower's error {code}") + (f" ({said})" if said else "")
        return Delivery(place, OUTCOMES.get(code, "refused"), node=node, reason=reason, sent=sent)
    try:
        answer, _ = from_records(found.content)
    except ProtocolError as error:
        reason = f"its answer is unreadable: {error}"
        return Delivery(place, "refused", node=node, reason=reason, sent=sent)
    return answer_of(place, node, answer, sent)


def _short(text: str) -> str:
    """The last line that says something, which in a traceback is the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST_REASON] if lines else ""
