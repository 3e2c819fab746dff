"""Lets any single file operation of a program be the one at which it dies or the disk is full.

Python reports its file operations to audit hooks, and a hook that raises stops the operation. So
every operation below a folder can be hit, whoever makes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
TAKES_NO_ROOM = ("os.remove", "os.rmdir")


class Killed(BaseException):
    """The process is gone: nothing after it may touch a file."""


@dataclass
class Operations:
    """Operations below `folder` that change it.

    Attributes:
        folder: what is watched.
        fail: what happens from operation number `at` on.
        at: counted from 0; None for never.
        count: operations so far.
    """

    folder: str
    fail: Callable[[str], None]
    at: int | None = None
    count: int = 0

    def happens(self, event: str) -> None:
        self.count += 1
        if self.at is not None and self.count > self.at:
            self.fail(event)


def kill(event: str) -> None:
    """From here on nothing is done, not even the cleaning up that exceptions cause."""
    raise Killed(event)


def fill_disk(event: str) -> None:
    """Only deleting still works."""
    if event not in TAKES_NO_ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


_watched: list[Operations] = []
_is_hooked = False


@contextlib.contextmanager
def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[str], None], at: int | None
) -> Iterator[Operations]:
    """Count what is done below `folder`, and let it fail from operation `at` on."""
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_hear)  # for good: hooks cannot be removed
        _is_hooked = True
    operations = Operations(str(folder), fail, at)
    with monkeypatch.context() as patch:
        # reaching the disk is an operation too; waiting for it is not needed here
        patch.setattr(os, "fsync", lambda _: operations.happens("os.fsync"))
        _watched.append(operations)
        try:
            yield operations
        finally:
            _watched.remove(operations)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or (event != "open" and event not in CHANGES):
        return
    path = arguments[0]
    if event == "open" and not _is_writing(arguments[2]):
        return
    if not isinstance(path, (str, os.PathLike)):
        return
    for operations in _watched:
        if os.path.abspath(os.fspath(path)).startswith(operations.folder):
            operations.happens(event)


def _is_writing(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
