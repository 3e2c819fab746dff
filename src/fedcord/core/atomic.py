"""Files that are either whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fedcord.core.errors import ConfigError

TEMPORARY = ".tmp"
"""How the names of files end that are being written; they begin with a dot."""
STALE_SECONDS = 3600.0
"""Nobody pauses so long in the middle of writing a file."""


def write_atomically(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write to a temporary name in the same folder, flush to disk, and rename."""
    with writing_atomically(path, mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing_atomically(path: Path, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A file to be written bit by bit, which has its name once all of it is there.

    Until it is renamed only its owner can read it; then `mode` says who can.
    """
    descriptor, temporary = tempfile.mkstemp(TEMPORARY, f".{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_stale(folder: Path) -> None:
    """Delete what writers that were killed long ago have left half written in a folder.

    For folders that several processes may write to at once. Whoever holds a folder alone can delete
    such files whatever their age.
    """
    oldest = time.time() - STALE_SECONDS
    for path in folder.iterdir():
        if is_temporary(path.name):
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                if path.stat().st_mtime < oldest:
                    path.unlink()


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that `write_atomically` gives before the file is whole."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def write_output(path: Path, content: str | bytes) -> None:
    """A file that the user asked for, whole or not at all; missing folders are made.

    Raises:
        ConfigError: when the place cannot be written.
    """
    with writing_output(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def writing_output(path: Path) -> Iterator[IO[bytes]]:
    """`write_output` bit by bit."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(path.parent)
        with writing_atomically(path) as file:
            yield file
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to."
        ) from error
