"""Reading files that end: a pipe or a device in a file's place would block or never stop."""

from __future__ import annotations

import stat
from pathlib import Path


class NotRegularError(OSError):
    """What stands at a path is a folder, a pipe, a device or a socket."""


def read_regular(path: Path) -> bytes:
    """The bytes of a regular file.

    Raises:
        OSError: when it cannot be read; NotRegularError before anything else is opened.
    """
    check_regular(path)
    return path.read_bytes()


def check_regular(path: Path) -> int:
    """The size in bytes of the regular file at `path`; a link is followed."""
    try:
        status = path.stat()
    except ValueError as error:  # a zero byte in the name
        raise NotRegularError(str(error)) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
        raise NotRegularError(f"it is {kind}, not a file")
    return status.st_size
