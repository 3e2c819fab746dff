"""A file that one process holds at a time; the lock ends with the process, however it ends."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedcord.core.errors import CheckpointError

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[str]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the file `path`, or say at once that somebody else does."""
    with path.open("a") as file:
        try:
            _take(file)
        except (BlockingIOError, PermissionError) as error:
            raise CheckpointError(
                f"another run is writing to '{path.parent}'; wait for it, or choose another "
                "folder with --out."
            ) from error
        yield
