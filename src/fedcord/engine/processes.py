"""Clients in persistent worker processes, one thread each.

The data is written once to a file without a name that workers inherit and map into memory, so that
nothing is left behind however and whenever the run ends. A round sends the shared tensors to each
worker once; then workers take visits one at a time, the largest first within a window that bounds
how many answers wait for their turn, and answers leave in client order.
"""

from __future__ import annotations

import heapq
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
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
from fedcord.engine.messages import pack, pack_job, unpack, unpack_answer
from fedcord.engine.population import Population
from fedcord.engine.shared_block import write_block
from fedcord.engine.visit import Answer, Job, remember, stacks
from fedcord.engine.worker import FAILURE, JOB, evaluation_request, visit_request

WINDOW_BYTES = 256 * 2**20
"""Answers that may wait for their turn, estimated from the size of the shared tensors."""

UNITS_PER_WORKER = 3
"""Stacks each worker gets at least, so that a large one does not leave the others idle."""
WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **KEEP_FREED_MEMORY}

T = TypeVar("T")


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
            self._start(blueprint, workers or os.cpu_count() or 1)
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

        def request(unit: int) -> bytes:
            return visit_request(units[unit], self.memories)

        def receive(connection: Connection, unit: int) -> list[tuple[ClientId, Answer]]:
            answers = []
            for client in units[unit]:
                answer, memory = unpack_answer(self._read(connection))
                remember(self.memories, client, memory)
                answers.append((client, answer))
            return answers

        for answers in self._schedule(cost, window, request, receive):
            yield from answers

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model on the server's test set, cut into shards over the workers.

        Clients' own models (`job.models_of`) are tested whole, one after the other per worker.
        """
        self._broadcast(job)
        total = len(self._population.test)
        starts = range(0, total, BATCH)  # whole batches: sums have the bits of one process
        own = job.models_of

        def request(unit: int) -> bytes:
            if own is not None:
                return evaluation_request(0, total, own[unit], self.memories[own[unit]])
            return evaluation_request(starts[unit], min(starts[unit] + BATCH, total))

        def receive(connection: Connection, _unit: int) -> Evaluation:
            header, _ = unpack(self._read(connection))
            return Evaluation.from_plain(header)

        costs = [1] * len(starts if own is None else own)
        return sum(self._schedule(costs, len(costs), request, receive), Evaluation())

    def _schedule(
        self,
        costs: Sequence[int],
        window: int,
        request: Callable[[int], bytes],
        receive: Callable[[Connection, int], T],
    ) -> Iterator[T]:
        """Have all units done by the workers and yield the results in order.

        Units start by falling cost, but never more than `window` ahead of the next one to yield.
        """
        waiting: list[tuple[int, int]] = []  # heap of (-cost, unit) inside the window
        entered, next_out = 0, 0
        done: dict[int, T] = {}
        idle, busy = list(self._connections), dict[Connection, int]()
        try:
            while next_out < len(costs):
                while entered < min(next_out + window, len(costs)):
                    heapq.heappush(waiting, (-costs[entered], entered))
                    entered += 1
                while idle and waiting:
                    connection, (_, unit) = idle.pop(), heapq.heappop(waiting)
                    self._write(connection, request(unit))
                    busy[connection] = unit
                if next_out in done:  # the workers are busy while the caller uses it
                    yield done.pop(next_out)
                    next_out += 1
                    continue
                for ready in wait(list(busy)):
                    assert isinstance(ready, Connection)
                    unit = busy.pop(ready)
                    done[unit] = receive(ready, unit)
                    idle.append(ready)
        finally:
            for (
                connection,
                unit,
            ) in busy.items():  # the caller stopped early: leave no answer unread
                receive(connection, unit)

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
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "fedcord.engine.worker",
                ],  # -P: nothing from the current folder
                stdin=subprocess.PIPE,
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
        for process in self._processes:
            try:
                process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._connections, self._processes = [], []
