"""What clients keep between visits, by the step that left it.

A node holds what the last step left with a client and what the one before did. So a request that
is asked again finds what it found the first time, and a server that goes on from the checkpoint
before finds the memory that belongs to it. Apart from that, it holds what a client must know
between the messages of one masked round, which belongs to no step and goes with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedcord.core.contract import ClientId
from fedcord.core.errors import CheckpointError
from fedcord.core.tensors import Tensors, decode, encode

KEPT_STEPS = 2


class MemoryStore(Protocol):
    """Where a node keeps its clients' memory."""

    def before(self, client: ClientId, step: int) -> Tensors:
        """What the newest step before `step` left with a client; nothing if none did."""
        ...

    def keep(self, client: ClientId, step: int, memory: Tensors) -> None:
        """Keep what `step` left; what later steps had left is of a future that was undone."""
        ...

    def drop(self, client: ClientId) -> None:
        """Forget a client."""
        ...

    def newest_step(self, client: ClientId) -> int | None:
        """The last step that left something with a client."""
        ...

    def session(self, client: ClientId) -> bytes:
        """What `keep_session` was last given for a client; nothing if it never was."""
        ...

    def keep_session(self, client: ClientId, session: bytes) -> None:
        """Keep the secrets of a masked round, in place of those of another."""
        ...


@dataclass
class _Kept:
    by_step: dict[int, Tensors | bytes] = field(default_factory=dict)
    has_dropped: bool = False


class InProcessMemory:
    """Memory that lives as long as the process, for simulations.

    With `as_bytes` nothing but values survives, as on a disk.
    """

    def __init__(self, as_bytes: bool = False) -> None:
        self._kept: dict[ClientId, _Kept] = {}
        self._sessions: dict[ClientId, bytes] = {}
        self._as_bytes = as_bytes

    def before(self, client: ClientId, step: int) -> Tensors:
        """What the newest step before `step` left with a client; nothing if none did."""
        kept = self._kept.get(client)
        if kept is None:
            return {}
        found = step_before(sorted(kept.by_step), kept.has_dropped, step)
        if found is None:
            return {}
        memory = kept.by_step[found]
        return decode(memory) if isinstance(memory, bytes) else memory

    def keep(self, client: ClientId, step: int, memory: Tensors) -> None:
        """Keep what `step` left; clients that never kept anything take no place."""
        if not memory and client not in self._kept:
            return
        kept = self._kept.setdefault(client, _Kept())
        for later in [known for known in kept.by_step if known >= step]:
            del kept.by_step[later]
        kept.by_step[step] = encode(memory) if self._as_bytes else memory
        for old in sorted(kept.by_step)[:-KEPT_STEPS]:
            del kept.by_step[old]
            kept.has_dropped = True

    def drop(self, client: ClientId) -> None:
        """Forget a client."""
        self._kept.pop(client, None)
        self._sessions.pop(client, None)

    def newest_step(self, client: ClientId) -> int | None:
        """The last step that left something with a client."""
        kept = self._kept.get(client)
        return max(kept.by_step) if kept is not None else None

    def session(self, client: ClientId) -> bytes:
        """What `keep_session` was last given for a client; nothing if it never was."""
        return self._sessions.get(client, b"")

    def keep_session(self, client: ClientId, session: bytes) -> None:
        """Keep the secrets of a masked round, in place of those of another."""
        self._sessions[client] = session


def step_before(known: Sequence[int], has_dropped: bool, step: int) -> int | None:
    """The newest of the `known` steps before `step`, or None when there never was one."""
    earlier = [one for one in known if one < step]
    if earlier:
        return max(earlier)
    if has_dropped:
        raise CheckpointError(
            f"what is kept was left by steps {list(known)}, but the server goes on from "
            f"before step {step}; start the run anew, or go on from a newer checkpoint."
        )
    return None
