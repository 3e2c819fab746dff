"""Clients in persistent worker processes, one thread each.

The data is written once to a file without a name that workers inherit and map into memory, so that
nothing is left behind however and whenever the run ends. A round sends the shared tensors to each
worker once; then workers take visits, the largest first within a window that bounds how many
answers wait for their turn, and answers leave in client order. Short visits travel together, many
in one message, since a message costs as much as training a small client does.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TypeVar

from fedcord.core import errors
from fedcord.core.contract import Algorithm, ClientId
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, num_bytes
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.evaluation import BATCH, Evaluation
from fedcord.engine.memory import KEEP_FREED_MEMORY
from fedcord.engine.messages import pack, pack_job, unpack, unpack_answers
from fedcord.engine.population import Population
from fedcord.engine.shared_block import write_block
from fedcord.engine.visit import Answer, Job, remember, stacks
from fedcord.engine.worker import FAILURE, JOB, Shard, evaluation_request, visit_request

WINDOW_BYTES = 256 * 2**20
"""Answers that may wait for their turn, estimated from the size of the shared tensors."""

UNITS_PER_WORKER = 3
"""Stacks each worker gets at least, so that a large one does not leave the others idle."""

MESSAGE_SECONDS = 0.03
"""Work in one message, as far as earlier ones tell; a single visit may take longer."""
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **KEEP_FREED_MEMORY}

START = str(Path(__file__).with_name("start_worker.py"))

T = TypeVar("T")


def worker_count(asked: int | None) -> int:
    """How many workers are started: one per core at most, which is also the default.

    More would only take turns, and each needs memory and seconds to start.
    """
    available = getattr(os, "sched_getaffinity", None)  # fewer than there are, in a container
    cores = len(available(0)) if available else os.cpu_count() or 1
    if asked is None:
        return cores
    if asked < 1:
        raise errors.ConfigError(
            f"workers = {asked}: must be at least 1; leave it out for {cores}."
        )
    return min(asked, cores)


@dataclass(frozen=True)
class _Sent:
    """A message to a worker: the units it carries and when it left."""

    units: list[int]
    at: float


@dataclass
class _Pace:
    """How fast work is done, which decides how much of it a message carries."""

    cost: int = 0
    seconds: float = 0.0

    def add(self, cost: int, seconds: float) -> None:
        self.cost, self.seconds = self.cost + cost, self.seconds + seconds

    def take(self, waiting: list[tuple[int, int]], workers: int) -> list[int]:
        """Units for one message from the heap, leaving enough for the other workers."""
        most = max(1, len(waiting) // (UNITS_PER_WORKER * workers))
        room = MESSAGE_SECONDS * self.cost / self.seconds if self.seconds else 0.0
        units: list[int] = []
        while waiting and len(units) < most and (not units or -waiting[0][0] <= room):
            cost, unit = heapq.heappop(waiting)
            units.append(unit)
            room += cost
        return units


class ProcessesExecutor:
    """The fastest way to reach simulated clients on one machine."""

    def __init__(
        self, blueprint: Blueprint, population: Population, workers: int | None = None
    ) -> None:
        self.memories: dict[ClientId, Tensors] = {}
        self._population = population
        blueprint.check_importable()
        self._algorithm: Algorithm = blueprint.build_algorithm()
        self._task: Task = blueprint.build_task()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        try:
            self._start(blueprint, worker_count(workers))
        except BaseException:
            self.close()
            raise

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        """Visit clients on all workers; at most a window of answers is held."""
        self._broadcast(job)
        few = UNITS_PER_WORKER * len(self._connections)
        units = stacks(self._algorithm, self._task, job, clients, at_least=few)
        sizes = self._population.train_sizes
        cost = [sum(sizes[client] for client in unit) for unit in units]
        per_unit = max(1, num_bytes(job.shared)) * max(map(len, units), default=1)
        window = max(2 * len(self._connections), WINDOW_BYTES // per_unit)

        def request(chosen: Sequence[int]) -> bytes:
            return visit_request([units[unit] for unit in chosen], self.memories)

        def receive(chosen: Sequence[int], body: bytes) -> list[list[tuple[ClientId, Answer]]]:
            replies = iter(unpack_answers(body, sum(len(units[unit]) for unit in chosen)))
            found: list[list[tuple[ClientId, Answer]]] = []
            for unit in chosen:
                found.append([])
                for client in units[unit]:
                    answer, memory = next(replies)
                    remember(self.memories, client, memory)
                    found[-1].append((client, answer))
            return found

        for answers in self._schedule(cost, window, request, receive):
            yield from answers

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model on the server's test set, cut into shards over the workers.

        Clients' own models (`job.models_of`) are tested whole, one after the other per worker.
        """
        self._broadcast(job)
        total = len(self._population.test)
        shards: list[Shard]
        if job.models_of is None:  # whole batches: sums have the bits of one process
            shards = [(k, min(k + BATCH, total), None) for k in range(0, total, BATCH)]
        else:
            shards = [(0, total, client) for client in job.models_of]

        def request(chosen: Sequence[int]) -> bytes:
            return evaluation_request([shards[unit] for unit in chosen], self.memories)

        def receive(_chosen: Sequence[int], body: bytes) -> list[Evaluation]:
            header, _ = unpack(body)
            return [Evaluation.from_plain(sums) for sums in header["sums"]]

        costs = [last - first for first, last, _ in shards]
        return sum(self._schedule(costs, len(costs), request, receive), Evaluation())

    def _schedule(
        self,
        costs: Sequence[int],
        window: int,
        request: Callable[[Sequence[int]], bytes],
        receive: Callable[[Sequence[int], bytes], list[T]],
    ) -> Iterator[T]:
        """Have all units done by the workers and yield the results in order.

        Units start by falling cost, but never more than `window` ahead of the next one to yield.
        """
        waiting: list[tuple[int, int]] = []  # heap of (-cost, unit) inside the window
        entered, next_out = 0, 0
        done: dict[int, T] = {}
        idle, busy = list(self._connections), dict[Connection, _Sent]()
        pace = _Pace()

        def collect(connection: Connection) -> None:
            sent = busy.pop(connection)
            body = self._read(connection)
            pace.add(sum(costs[unit] for unit in sent.units), time.perf_counter() - sent.at)
            done.update(zip(sent.units, receive(sent.units, body), strict=True))
            idle.append(connection)

        try:
            while next_out < len(costs):
                while entered < min(next_out + window, len(costs)):
                    heapq.heappush(waiting, (-costs[entered], entered))
                    entered += 1
                while idle and waiting:
                    connection = idle.pop()
                    units = pace.take(waiting, len(self._connections))
                    self._write(connection, request(units))
                    busy[connection] = _Sent(units, time.perf_counter())
                # who has finished gets new work before the caller gets a result to use
                arrived = wait(list(busy), timeout=0 if next_out in done else None)
                for ready in arrived:
                    assert isinstance(ready, Connection)
                    collect(ready)
                if not arrived:
                    yield done.pop(next_out)
                    next_out += 1
        except (GeneratorExit, errors.FedcordError):  # stopped early: leave no answer unread
            for connection in busy:
                with contextlib.suppress(EOFError, OSError):  # it may be gone or closed by now
                    connection.recv_bytes()
            raise

    def _broadcast(self, job: Job) -> None:
        message = JOB + pack_job(job)
        for connection in self._connections:
            self._write(connection, message)

    def _start(self, blueprint: Blueprint, count: int) -> None:
        if sys.platform == "win32":
            raise errors.ConfigError("engine 'processes' needs Linux or macOS; use 'sequential'.")
        shared_memory = Path("/dev/shm")  # noqa: S108 - only the folder of a nameless file
        folder = shared_memory if os.access(shared_memory, os.W_OK) else None
        with tempfile.TemporaryFile(dir=folder) as data:
            layout = write_block(self._population.tensors(), data)
            for _ in range(count):
                self._launch(data.fileno())
            setup = pack({"blueprint": blueprint.to_json(), "layout": layout}, {})
            for connection in self._connections:
                self._write(connection, setup)
            for connection in self._connections:
                self._read(connection)

    def _launch(self, data: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-P", START],
                stdin=subprocess.PIPE,
                process_group=0,  # Ctrl-C is for the parent, which then ends its workers
                pass_fds=[theirs.fileno(), data],
                env={**os.environ, **WORKER_ENVIRONMENT},
            )
            start = {"descriptor": theirs.fileno(), "data": data, "path": sys.path}
        self._processes.append(process)
        self._connections.append(Connection(ours.detach()))
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(start).encode() + b"\n")

    def _write(self, connection: Connection, message: bytes) -> None:
        try:
            connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._lost(connection) from error

    def _read(self, connection: Connection) -> bytes:
        """The body of the next answer; a worker's error is raised here."""
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionResetError) as error:
            raise self._lost(connection) from error
        kind, body = message[:1], message[1:]
        if kind == FAILURE:
            header, _ = unpack(body)
            raise getattr(errors, header["error"])(header["message"])
        return body

    def _lost(self, connection: Connection) -> errors.FedcordError:
        process = self._processes[self._connections.index(connection)]
        return errors.ProtocolError(
            f"a worker process ended with code {process.wait()} (its own message is above); "
            "try --engine sequential to see the error in one process."
        )

    def close(self) -> None:
        """End the workers."""
        for connection in self._connections:
            connection.close()
        patience = time.monotonic() + 1
        for process in self._processes:
            try:
                process.wait(timeout=max(0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._connections, self._processes = [], []
