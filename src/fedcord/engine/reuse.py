"""Clients' work that was done before, taken from a folder instead of done again.

Methods often differ only on the server: two ways to fuse the same models, ten heads on the same
encoders. Their clients do the same work on the same data with the same random numbers, and a study
need not pay for it twice. What is stored is found by everything that decides it: the settings the
algorithm names (`work`), what the client receives, holds and remembers, the task, the address
of its random streams, the number of threads, and the versions of the packages at work. So a stored
result has the very bits a visit would give. A file that is not as it was written is refused.

Methods with rounds store every client's model of every round; nothing is stored any more when the
disk is nearly full.

Code under development is not part of the address: use a new folder after changing an algorithm.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import Algorithm, ClientId, ClientResult, Env, SharesWork
from fedcord.core.errors import DataError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.passes import Passes
from fedcord.core.tensors import Tensors, hash_tensors, prefixed, select
from fedcord.engine.requests import SAVED, SAVED_CPU, TOOK, Reply, Request, pack, sayable, unpack

CHECKSUM = hashlib.sha256().digest_size
"""Bytes at the end of a file, over its name and everything before them."""

LEAVES_FREE = 4 * 2**30
"""Bytes of the disk that are left to others: then work is done again instead of stored."""


@dataclass(frozen=True)
class Visit:
    """One client at the moment it is asked to work."""

    client: ClientId
    data: ClientData
    memory: Tensors
    env: Env


Earlier = tuple[ClientResult, dict[str, Any]]
"""What a visit gave, and what it took, as a reply says it."""


class WorkCache:
    """A folder of results, found by what decides them."""

    def __init__(self, folder: Path, task_values: str, versions: Mapping[str, str | None]) -> None:
        self._folder = folder
        self._task_values = task_values
        self._versions = dict(versions)
        self._data_hashes: dict[ClientId, str] = {}
        self._received: tuple[Tensors, str] | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; the inverse of `from_plain`."""
        return {
            "folder": str(self._folder),
            "task_values": self._task_values,
            "versions": self._versions,
        }

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> WorkCache:
        """The same cache in another process."""
        return WorkCache(Path(values["folder"]), values["task_values"], values["versions"])

    def take(
        self, algorithm: Algorithm, request: Request, visits: Sequence[Visit]
    ) -> dict[ClientId, Earlier]:
        """Results of the visits that were made before, and what each took then."""
        found = {}
        for visit in visits:
            path = self._path(algorithm, request, visit)
            if path is not None and path.exists():
                found[visit.client] = _read(path)
        return found

    def put(
        self,
        algorithm: Algorithm,
        request: Request,
        visit: Visit,
        result: ClientResult,
        seconds: float,
        took: Passes,
    ) -> None:
        """Store what a visit gave and what it took."""
        path = self._path(algorithm, request, visit)
        if path is None or shutil.disk_usage(self._folder).free < LEAVES_FREE:
            return
        header = {
            **sayable(result.update),
            "seconds": round(seconds, 6),
            "cpu_seconds": round(took.cpu_seconds, 6),
            TOOK: took.plain(),
            "data": self._data_hash(visit),  # so that it can be found when its owner leaves
        }
        tensors = prefixed("update", result.update.tensors) | prefixed("memory", result.memory)
        content = pack(header, tensors)
        write_atomically(path, content + _checksum(path, content))

    def _path(self, algorithm: Algorithm, request: Request, visit: Visit) -> Path | None:
        """Where the result is, or will be; None where work cannot be shared."""
        if not algorithm.traits.shares_work:
            return None
        work = cast(SharesWork, algorithm).work(request.shared, visit.env)
        if work is None:
            return None
        address = {
            "settings": work.settings,
            "received": self._hash_of_received(work.received),
            "task": self._task_values,
            "memory": hash_tensors(visit.memory),
            "data": self._data_hash(visit),
            "stream": [request.seed, visit.client],
            "threads": torch.get_num_threads(),
            "versions": self._versions,
        }
        text = json.dumps(address, sort_keys=True)
        return self._folder / hashlib.sha256(text.encode()).hexdigest()

    def _hash_of_received(self, tensors: Tensors) -> str:
        """Most clients are sent the very same tensors."""
        if self._received is None or self._received[0] is not tensors:
            self._received = tensors, hash_tensors(tensors)
        return self._received[1]

    def _data_hash(self, visit: Visit) -> str:
        if visit.client not in self._data_hashes:
            self._data_hashes[visit.client] = _hash_of(visit.data)
        return self._data_hashes[visit.client]


def work_of(folder: Path, data: ClientData) -> list[Path]:
    """The files in a folder of work that were made from a client's data.

    What cannot be read, or does not say whose it is, may be: it is among them, since work that is
    deleted is only done again.
    """
    wanted = _hash_of(data)
    return [path for path in sorted(folder.glob("?" * 64)) if _made_from(path) in (wanted, None)]


def _made_from(path: Path) -> str | None:
    """The hash of the data a result was made from, where it is known."""
    try:
        header, _ = unpack(_unsealed(path))
    except ProtocolError:
        return None
    made_from = header.get("data")
    return made_from if isinstance(made_from, str) else None


def _hash_of(data: ClientData) -> str:
    return hash_tensors({"inputs": data.train.inputs, "labels": data.train.labels})


def _read(path: Path) -> Earlier:
    try:
        header, tensors = unpack(_unsealed(path))
        update = Reply(None, "update", tensors=select(tensors, "update"), values=header).update()
        cost: dict[str, Any] = {SAVED: float(header["seconds"])}
        if TOOK in header:  # older versions did not count
            took = Passes.from_plain(header[TOOK])
            cost |= {SAVED_CPU: float(header["cpu_seconds"]), TOOK: took.plain()}
        return ClientResult(update, select(tensors, "memory")), cost
    except (OSError, ProtocolError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"--reuse: '{path}' cannot be used ({error}); delete it to do the work again."
        ) from error


def _unsealed(path: Path) -> bytes:
    """What was written, without its checksum, which must be right."""
    data = path.read_bytes()
    content = data[:-CHECKSUM]
    if data[-CHECKSUM:] != _checksum(path, content):
        raise ProtocolError("its checksum is wrong")
    return content


def _checksum(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + content).digest()
