"""Finding, ending and watching real processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 600.0
"""Seconds for anything that must happen; a busy machine is slow."""


def wait_until(true: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, f"never happened: {what}"
        time.sleep(0.05)


def pids_of(program: str, address: str) -> list[int]:
    """Of the processes of a program that were told an address."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if address in words and any(word.endswith(program) for word in words[:2]):
            found.append(int(path.parent.name))
    return found


def kill(pid: int) -> None:
    """At once, as a power cut does."""
    os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """A process and its children."""
    os.killpg(pid, signal.SIGKILL)


class Background:
    """Does something while the test goes on, and keeps what came out."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        self._work = work
        self._thread = threading.Thread(target=self._do, daemon=True)
        self._thread.start()

    def _do(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:
            self.error = error

    def wait(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it never ended"
        return self.result


def lines_of(out: Path) -> int:
    """Rounds that a run has written down."""
    path = out / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0
