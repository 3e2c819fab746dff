"""Files that are either whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from fedcord.core.errors import ConfigError

TEMPORARY = ".tmp"
"""How the names of files end that are being written; they begin with a dot."""
STALE_SECONDS = 3600.0
"""Nobody pauses so long in the middle of writing a file."""


def write_atomically(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write to a temporary name in the same folder, flush to disk, and rename.

    Until it is renamed only its owner can read it; then `mode` says who can.
    """
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(TEMPORARY, f".{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(path.parent)
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror}); choose a folder you may write to."
        ) from error
