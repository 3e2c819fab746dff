"""Clients' work that was done before, taken from a folder instead of done again.

Methods often differ only on the server: two ways to fuse the same models, ten heads on the same
encoders. Their clients do the same work on the same data with the same random numbers, and a study
need not pay for it twice. What is stored is found by everything that decides it: the settings the
algorithm names (`SharesWork`), what the client receives, holds and remembers, the task, the address
of its random streams, the number of threads, and the versions of the packages at work. So a stored
answer has the very bits a visit would give. A file that is not as it was written is refused.

Code under development is not part of the address: use a new folder after changing an algorithm.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import ClientId, SharesWork
from fedcord.core.errors import DataError, ProtocolError
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, hash_tensors
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.messages import pack_answer, unpack_answer
from fedcord.engine.population import Population
from fedcord.engine.visit import Answer, Executor, Job, Refusal, remember

TAIL = 64
"""Bytes after a stored answer that say how long the work took."""
CHECKSUM = hashlib.sha256().digest_size
"""Bytes at the end of the file, over its name and everything before them."""


class ReusingExecutor:
    """Another executor, asked only for what the folder does not hold.

    Attributes:
        saved_seconds: how long the answers taken from the folder took when they were made, since
            the last time somebody set it to zero.
    """

    def __init__(
        self,
        inner: Executor,
        algorithm: SharesWork,
        task: Task,
        task_values: str,
        population: Population,
        folder: Path,
        versions: Mapping[str, str | None],
    ) -> None:
        self.saved_seconds = 0.0
        self._inner = inner
        self._algorithm = algorithm
        self._task = task
        self._task_values = task_values
        self._population = population
        self._folder = folder
        self._versions = dict(versions)
        self._data_hashes: dict[ClientId, str] = {}

    @property
    def memories(self) -> dict[ClientId, Tensors]:
        """What every visited client keeps."""
        return self._inner.memories

    @memories.setter
    def memories(self, memories: dict[ClientId, Tensors]) -> None:
        self._inner.memories = memories

    def map_clients(
        self, job: Job, clients: Sequence[ClientId]
    ) -> Iterator[tuple[ClientId, Answer]]:
        """Answers in the order of `clients`, from the folder where it holds them."""
        if job.verb != "update":
            yield from self._inner.map_clients(job, clients)
            return
        paths = self._paths(job, clients)
        held = {client for client, path in paths.items() if path.exists()}
        fresh = iter(self._inner.map_clients(job, [k for k in clients if k not in held]))
        for client in clients:
            if client in held:
                yield client, self._take(client, paths[client])
                continue
            started = time.perf_counter()
            visited, answer = next(fresh)
            assert visited == client
            if client in paths:
                self._put(client, answer, paths[client], time.perf_counter() - started)
            yield client, answer

    def evaluate(self, job: Job) -> Evaluation:
        """The shared model on the server's test set."""
        return self._inner.evaluate(job)

    def close(self) -> None:
        """Release what the other executor holds."""
        self._inner.close()

    def _paths(self, job: Job, clients: Sequence[ClientId]) -> dict[ClientId, Path]:
        """Where the answer to this job is, or will be, of each client whose work can be shared."""
        last: Tensors | None = None  # most clients are sent the very same tensors
        received = ""
        paths = {}
        for client in clients:
            work = self._algorithm.work(job.shared, job.env(self._task, client))
            if work is None:
                continue
            if work.received is not last:
                last, received = work.received, hash_tensors(work.received)
            address = {
                "settings": work.settings,
                "received": received,
                "task": self._task_values,
                "memory": hash_tensors(self.memories.get(client, {})),
                "data": self._data_hash(client),
                "stream": [job.seed, client],
                "threads": torch.get_num_threads(),
                "versions": self._versions,
            }
            text = json.dumps(address, sort_keys=True)
            paths[client] = self._folder / hashlib.sha256(text.encode()).hexdigest()
        return paths

    def _data_hash(self, client: ClientId) -> str:
        if client not in self._data_hashes:
            train = self._population.client(client).train
            values = {"inputs": train.inputs, "labels": train.labels}
            self._data_hashes[client] = hash_tensors(values)
        return self._data_hashes[client]

    def _take(self, client: ClientId, path: Path) -> Answer:
        try:
            content = _unsealed(path)
            header = json.loads(content[-TAIL:])
            answer, memory = unpack_answer(content[:-TAIL])
            self.saved_seconds += float(header["seconds"])
        except (OSError, ProtocolError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"--reuse: '{path}' cannot be used ({error}); delete it to do the work again."
            ) from error
        remember(self.memories, client, memory)
        return answer

    def _put(self, client: ClientId, answer: Answer, path: Path, seconds: float) -> None:
        if isinstance(answer, Refusal):
            return  # rare, and its reason should be seen to happen
        body = pack_answer(answer, self.memories.get(client, {}))
        content = body + _tail(seconds)
        write_atomically(path, content + _checksum(path, content))


def _unsealed(path: Path) -> bytes:
    """What was written, without its checksum, which must be right."""
    data = path.read_bytes()
    content = data[:-CHECKSUM]
    if data[-CHECKSUM:] != _checksum(path, content):
        raise ProtocolError("its checksum is wrong")
    return content


def _checksum(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + content).digest()


def _tail(seconds: float) -> bytes:
    """How long the work took, in a fixed number of bytes at the end of the file."""
    return json.dumps({"seconds": round(seconds, 6)}).encode().ljust(TAIL)
