"""Nodes in persistent worker processes, one thread each.

The data is written once to a file without a name that workers inherit and map into memory, so that
nothing is left behind however and whenever the run ends. Every worker is a node that could serve
any client; one that keeps something for a client stays its home. A request goes to each worker
once; then workers take parcels one at a time, the most expensive first within a window that bounds
how many answers can be waiting for their turn.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from fedcord.core import errors
from fedcord.core.tensors import num_bytes
from fedcord.engine.agreement import Agreement
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.child import CAN_START, Child, available_cores, end_children, start_child
from fedcord.engine.population import Population
from fedcord.engine.requests import (
    Parcel,
    Request,
    join,
    pack,
    pack_parcel,
    pack_request,
    split,
)
from fedcord.engine.reuse import WorkCache
from fedcord.engine.shared_block import nameless_file, write_block
from fedcord.engine.transport import PARCELS_PER_NODE, Delivery
from fedcord.engine.transports.worker import PARCELS, REQUEST

WINDOW_BYTES = 256 * 2**20
"""Answers that may wait for their turn, estimated from the size of the shared tensors."""

MESSAGE_SECONDS = 0.03
"""Work in one message, as far as earlier ones tell; a single parcel may take longer."""

WORKER = "fedcord.engine.transports.worker"


def worker_count(asked: int | None) -> int:
    """How many workers are started: one per core at most, which is also the default.

    More would only take turns, and each needs memory and seconds to start.
    """
    cores = available_cores()
    if asked is None:
        return cores
    if asked < 1:
        raise errors.ConfigError(
            f"workers = {asked}: must be at least 1; leave it out for {cores}."
        )
    return min(asked, cores)


class ProcessesTransport:
    """The fastest way to reach simulated clients on one machine."""

    def __init__(
        self,
        blueprint: Blueprint,
        population: Population,
        workers: int | None = None,
        agreement: Agreement | None = None,
        cache: WorkCache | None = None,
    ) -> None:
        blueprint.check_importable()
        self._children: list[Child] = []
        self._owing: set[Connection] = set()  # workers that will still answer an earlier request
        setup = {
            "blueprint": blueprint.to_json(),
            "fingerprint": population.fingerprint,
            "names": list(population.names.items()),
            "agreement": asdict(agreement or Agreement()),
            "cache": None if cache is None else cache.plain(),
        }
        try:
            self._start(setup, population, worker_count(workers))
        except BaseException:
            self.close()
            raise

    @property
    def _connections(self) -> list[Connection]:
        return [child.connection for child in self._children]

    @property
    def nodes(self) -> Sequence[int]:
        """One per worker."""
        return range(len(self._connections))

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        """Have all parcels done by the workers.

        They start by falling cost, but never more than a window ahead of the first unanswered one.
        """
        message = REQUEST + pack_request(request)
        per_parcel = max(1, num_bytes(request.shared)) * max(
            [len(p.clients) for p in parcels] + [1]
        )
        window = max(2 * len(self._connections), WINDOW_BYTES // per_parcel)
        queue = _Queue(parcels, window, len(self._connections))
        told, busy = set[Connection](), dict[Connection, _Sent]()
        ends = None if deadline is None else time.monotonic() + deadline
        try:
            while not queue.is_done:
                for node, connection in enumerate(self._connections):
                    if connection in busy or connection in self._owing:
                        continue
                    places = queue.take(node)
                    if not places:
                        continue
                    size = 0 if connection in told else self._write(connection, message)
                    told.add(connection)
                    calls = [pack_parcel(parcels[place]) for place in places]
                    size += self._write(connection, PARCELS + join(calls))
                    busy[connection] = _Sent(places, time.perf_counter(), size)
                patience = None if ends is None else max(0.0, ends - time.monotonic())
                ready = wait([*busy, *self._owing], patience)
                if not ready:
                    for place in queue.unanswered():
                        yield Delivery(place, "late", reason=f"no answer within {deadline:g} s")
                    return
                for one in ready:
                    assert isinstance(one, Connection)
                    answers = self._read(one)
                    if one in self._owing:  # an answer nobody waits for any more
                        self._owing.remove(one)
                        continue
                    sent, node = busy.pop(one), self._connections.index(one)
                    queue.answered(sent.places, time.perf_counter() - sent.at)
                    for place, replies in zip(sent.places, split(answers), strict=True):
                        size, sent.size = sent.size, 0
                        yield Delivery(place, "arrived", replies, node, sent=size)
        finally:
            self._owing |= busy.keys()  # the caller stopped early, or the deadline passed

    def _start(self, setup: Mapping[str, Any], population: Population, count: int) -> None:
        if not CAN_START:
            raise errors.ConfigError("engine 'processes' needs Linux or macOS; use 'sequential'.")
        tensors = population.tensors()
        with nameless_file(tensors) as data:
            layout, file = write_block(tensors, data), data.fileno()
            for _ in range(count):
                self._children.append(start_child(WORKER, {"data": file}, [file]))
            message = pack({**setup, "layout": layout}, {})
            for connection in self._connections:
                self._write(connection, message)
            for connection in self._connections:
                self._read(connection)

    def _write(self, connection: Connection, message: bytes) -> int:
        """Send, and say how much."""
        try:
            connection.send_bytes(message)
            return len(message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._lost(connection) from error

    def _read(self, connection: Connection) -> bytes:
        try:
            return connection.recv_bytes()
        except (EOFError, ConnectionResetError) as error:
            raise self._lost(connection) from error

    def _lost(self, connection: Connection) -> errors.FedcordError:
        process = self._children[self._connections.index(connection)].process
        return errors.ProtocolError(
            f"a worker process ended with code {process.wait()} (its own message is above); "
            "try --engine sequential to see the error in one process."
        )

    def close(self) -> None:
        """End the workers."""
        end_children(self._children)
        self._children = []


@dataclass
class _Sent:
    """A message to a worker: the parcels it carries, when it left, and its bytes."""

    places: list[int]
    at: float
    size: int


class _Queue:
    """Parcels that wait to be sent, those of a window by falling cost.

    A message costs as much as training a small client does, so one carries as many parcels as
    are done in a short time, judged by those before.
    """

    def __init__(self, parcels: Sequence[Parcel], window: int, workers: int) -> None:
        self._parcels = parcels
        self._window = window
        self._workers = workers
        self._open = set(range(len(parcels)))
        self._entered = 0
        self._first_open = 0
        self._waiting: dict[int | None, list[tuple[int, int]]] = {}
        self._done_cost, self._done_seconds = 0, 0.0

    @property
    def is_done(self) -> bool:
        """Whether everything was answered."""
        return not self._open

    def unanswered(self) -> list[int]:
        """What is still open, in order."""
        return sorted(self._open)

    def answered(self, places: Sequence[int], seconds: float) -> None:
        """Take note of answers and how long they took, which may move the window."""
        self._open.difference_update(places)
        self._done_cost += sum(self._parcels[place].cost for place in places)
        self._done_seconds += seconds
        while self._first_open < len(self._parcels) and self._first_open not in self._open:
            self._first_open += 1

    def take(self, node: int) -> list[int]:
        """The most expensive parcels in the window that this node may do, for one message."""
        while self._entered < min(self._first_open + self._window, len(self._parcels)):
            parcel = self._parcels[self._entered]
            heap = self._waiting.setdefault(parcel.node, [])
            heapq.heappush(heap, (-parcel.cost, self._entered))
            self._entered += 1
        heaps = [self._waiting[key] for key in (node, None) if self._waiting.get(key)]
        if not heaps:
            return []
        heap = min(heaps, key=lambda heap: heap[0])
        most = max(1, len(heap) // (PARCELS_PER_NODE * self._workers))
        is_paced = self._done_seconds > 0
        room = MESSAGE_SECONDS * self._done_cost / self._done_seconds if is_paced else 0.0
        places: list[int] = []
        while heap and len(places) < most and (not places or -heap[0][0] <= room):
            cost, place = heapq.heappop(heap)
            places.append(place)
            room += cost
        return places
