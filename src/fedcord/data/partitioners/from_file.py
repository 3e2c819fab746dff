"""`file:PATH`: an assignment made elsewhere, as JSON.

    {"clients": [[0, 5, 7], [1, 2]], "client_names": ["north", "south"], "test": [[7], [2]],
     "overlap": false, "hash": "…"}

`clients` holds indices into the training split; all else may be left out. `test` says which of them
each client keeps for its own test, instead of a share drawn at random. Two clients may share an
example only when `overlap` is true. `hash`, if there, must be that of the indices; other keys are
ignored, so that the file a run stores about its partition can be read back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcord.core.errors import DataError
from fedcord.core.names import readable
from fedcord.core.params import param
from fedcord.data.partitioners.partitioner import Indices, Source


@dataclass(frozen=True)
class FromFile:
    """Indices read from a JSON file."""

    path: str = param("", "the JSON file, relative to the working folder")

    def problems(self, num_clients: int) -> list[str]:
        """The file must be there."""
        if Path(self.path).is_file():
            return []
        return [f"there is no file '{self.path}'; give the path of a JSON file of client indices."]

    def split(self, source: Source, num_clients: int, seed: int) -> list[Indices]:
        """The file's clients, less what the long-tail filter took; the seed decides nothing."""
        content = self._read()
        clients = content["clients"]
        parts = [self._client(k, indices, len(source.labels)) for k, indices in enumerate(clients)]
        if num_clients not in (0, len(parts)):
            raise self._error(
                f"holds {len(parts)} clients, but {num_clients} were asked for; leave the number "
                f"of clients out or say {len(parts)}"
            )
        if content.get("overlap") is not True:
            self._check_disjoint(parts, len(source.labels))
        tests = self._tests(content, parts)
        if "hash" in content and content["hash"] != hash_clients(parts, tests):
            raise self._error(
                "was changed after it was written: its hash does not fit its clients; restore the "
                "file, or remove the hash if the change is meant"
            )
        return [part[np.isin(part, source.pool)] for part in parts]

    def client_names(self, source: Source, parts: Sequence[Indices]) -> tuple[str, ...]:
        """Those in the file, if there are any."""
        names = self._read().get("client_names") or []
        if not isinstance(names, list) or len(names) not in (0, len(parts)):
            raise self._error(f'has "client_names" that are not a list of {len(parts)} names')
        return tuple(readable(str(name)) for name in names)

    def client_tests(self, parts: Sequence[Indices]) -> tuple[Indices, ...]:
        """Those in the file, if there are any, as far as they were dealt out."""
        content = self._read()
        whole = [np.array(indices, dtype=np.int64) for indices in content["clients"]]
        tests = self._tests(content, whole)
        return tuple(t[np.isin(t, part)] for t, part in zip(tests, parts, strict=bool(tests)))

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(Path(self.path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:  # ValueError: also huge numbers
            raise self._error(f"cannot be read as JSON ({error}); see the form below") from error
        if not isinstance(content, dict) or not isinstance(content.get("clients"), list):
            raise self._error('has no list under "clients"')
        if not content["clients"]:
            raise self._error("holds no clients; give at least one")
        return content

    def _tests(self, content: dict[str, Any], parts: Sequence[Indices]) -> tuple[Indices, ...]:
        """Every client's own test part, ascending; none if the file says nothing about them."""
        tests = content.get("test", [])
        if not isinstance(tests, list) or len(tests) not in (0, len(parts)):
            raise self._error(f'has "test" that is not a list of {len(parts)} lists of indices')
        found = []
        for client, (indices, part) in enumerate(zip(tests, parts, strict=bool(tests))):
            owned = set(part.tolist())
            if not isinstance(indices, list) or len(indices) > len(owned):
                raise self._error(f"gives client {client} a test part that is no part of its own")
            for index in indices:
                if type(index) is not int or index not in owned:
                    raise self._error(
                        f"lets client {client} test on the index {index!r:.40}, which is not among "
                        'its own; list under "test" a part of what is under "clients"'
                    )
            found.append(self._ascending(client, indices))
        return tuple(found)

    def _client(self, client: int, indices: object, num_examples: int) -> Indices:
        if not isinstance(indices, list):
            raise self._error(f"gives client {client} as {indices!r:.40}, which is not a list")
        for index in indices:
            if type(index) is not int or not 0 <= index < num_examples:
                raise self._error(
                    f"gives client {client} the index {index!r:.40}; the training split allows "
                    f"whole numbers from 0 to {num_examples - 1}"
                )
        return self._ascending(client, indices)

    def _ascending(self, client: int, indices: list[int]) -> Indices:
        part = np.sort(np.array(indices, dtype=np.int64))
        repeated = part[1:][part[1:] == part[:-1]]
        if len(repeated):
            raise self._error(f"gives client {client} the index {repeated[0]} more than once")
        return part

    def _check_disjoint(self, parts: Sequence[Indices], num_examples: int) -> None:
        owner = np.full(num_examples, -1, dtype=np.int64)
        for k, part in enumerate(parts):
            taken = part[owner[part] >= 0]
            if len(taken):
                raise self._error(
                    f"gives the index {taken[0]} to client {owner[taken[0]]} and to client {k}; "
                    'if clients are meant to share examples, add "overlap": true'
                )
            owner[part] = k

    def _error(self, what: str) -> DataError:
        return DataError(
            f"the partition file '{self.path}' {what}. "
            'Form: {"clients": [[indices of client 0], [indices of client 1], …]}.'
        )


def hash_clients(clients: Sequence[Indices], tests: Sequence[Indices] = ()) -> str:
    """SHA-256 over the clients' indices in order, with their lengths so that borders count.

    Args:
        clients: the indices of each.
        tests: those it tests on, where they are part of the assignment.
    """
    digest = hashlib.sha256()
    for place, indices in enumerate((*clients, *tests)):
        digest.update(b"tests" if place == len(clients) else b"")
        digest.update(len(indices).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(indices, dtype="<i8").tobytes())
    return digest.hexdigest()
