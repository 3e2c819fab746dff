"""Memory that outlives its process: files in a folder of the site's own.

    FOLDER / RUN / client-1 / step-000007.safetensors
    FOLDER / RUN / masked-1.json

A node that is started anew for every message finds here what earlier steps left, as in
`InProcessMemory`: this step's and the one before's. Files are whole or absent, and say themselves
whose they are and what they must contain. Secrets of a masked round lie beside, for their owner's
eyes only.
"""

from __future__ import annotations

import re
from pathlib import Path

import safetensors

from fedcord.core.atomic import write_atomically
from fedcord.core.contract import ClientId
from fedcord.core.errors import CheckpointError, ProtocolError, shown
from fedcord.core.tensors import Tensors, encode, hash_tensors
from fedcord.engine.memory_store import KEPT_STEPS, step_before

STEP = re.compile(r"step-(\d+)\.safetensors")
RUN = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z-]{0,127}")
DROPPED = "older-steps-are-gone"
"""A file that says that there were steps before those that are kept."""


class DiskMemory:
    """What the clients of one run keep in a folder."""

    def __init__(self, folder: Path, run: str) -> None:
        """Below `folder`, in a place of the run's own."""
        if not RUN.fullmatch(run):  # it becomes the name of a folder
            raise ProtocolError(f"{shown(run)} cannot be the identity of a run.")
        self._run = run
        self._folder = folder / run

    def before(self, client: ClientId, step: int) -> Tensors:
        """What the newest step before `step` left with a client; nothing if none did."""
        known, place = self._steps(client), self._place(client)
        found = step_before(known, (place / DROPPED).exists(), step)
        return {} if found is None else self._read(client, found)

    def keep(self, client: ClientId, step: int, memory: Tensors) -> None:
        """Keep what `step` left; clients that never kept anything take no place."""
        place = self._place(client)
        if not memory and not place.exists():
            return
        place.mkdir(parents=True, exist_ok=True)
        write_atomically(
            self._file(client, step), encode(memory, self._label(client, step, memory))
        )
        # only now: whoever is killed before has lost nothing
        known = self._steps(client)
        undone = [later for later in known if later > step]
        old = [earlier for earlier in known if earlier <= step][:-KEPT_STEPS]
        if old:
            write_atomically(place / DROPPED, "")
        for other in undone + old:
            self._file(client, other).unlink(missing_ok=True)

    def drop(self, client: ClientId) -> None:
        """Forget a client."""
        place = self._place(client)
        self._session(client).unlink(missing_ok=True)
        for step in self._steps(client):
            self._file(client, step).unlink(missing_ok=True)
        (place / DROPPED).unlink(missing_ok=True)
        if place.exists():
            place.rmdir()

    def newest_step(self, client: ClientId) -> int | None:
        """The last step that left something with a client."""
        return max(self._steps(client), default=None)

    def session(self, client: ClientId) -> bytes:
        """What `keep_session` was last given for a client; nothing if it never was."""
        try:
            return self._session(client).read_bytes()
        except FileNotFoundError:
            return b""

    def keep_session(self, client: ClientId, session: bytes) -> None:
        """Keep the secrets of a masked round, in place of those of another."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._session(client), session, mode=0o600)

    def _session(self, client: ClientId) -> Path:
        return self._folder / f"masked-{client}.json"

    def _place(self, client: ClientId) -> Path:
        return self._folder / f"client-{client}"

    def _file(self, client: ClientId, step: int) -> Path:
        return self._place(client) / f"step-{step:06d}.safetensors"

    def _steps(self, client: ClientId) -> list[int]:
        found = map(STEP.fullmatch, _names(self._place(client)))
        return sorted(int(match[1]) for match in found if match)

    def _label(self, client: ClientId, step: int, memory: Tensors) -> dict[str, str]:
        whose = {"run": self._run, "client": str(client), "step": str(step)}
        return whose | {"hash": hash_tensors(memory)}

    def _read(self, client: ClientId, step: int) -> Tensors:
        path = self._file(client, step)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                label = file.metadata() or {}
                names = file.keys()
                memory = {name: file.get_tensor(name).clone() for name in names}
        except (OSError, safetensors.SafetensorError) as error:
            raise CheckpointError(
                f"what client {client} keeps in '{path}' is damaged ({error}); {REMEDY}."
            ) from error
        if label != self._label(client, step, memory):
            raise CheckpointError(
                f"'{path}' does not have the content it was written with; {REMEDY}."
            )
        return memory


REMEDY = "restore the file, or start the run anew"


def _names(folder: Path) -> list[str]:
    """What a folder holds; one that cannot be read is an error, never an empty one."""
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
