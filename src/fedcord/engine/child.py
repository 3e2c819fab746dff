"""Child processes of our own: fresh interpreters that are sent plain values and end with us.

Nothing is forked and nothing pickled, so a child is the same whatever its parent has done, and a
script needs no `if __name__ == "__main__"` to start some.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fedcord.core.errors import ConfigError
from fedcord.engine.memory import KEEP_FREED_MEMORY

CAN_START = sys.platform != "win32"
"""Whether children can be handed open files and watch their parent."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **KEEP_FREED_MEMORY}
START = str(Path(__file__).with_name("start_child.py"))
PATIENCE = 1.0
"""Seconds that children have to end by themselves."""


def available_cores() -> int:
    """How many cores this process may use: fewer than there are, in a container."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


@dataclass(frozen=True)
class Child:
    """A process and the way to talk to it."""

    process: subprocess.Popen[bytes]
    connection: Connection


def start_child(
    module: str, more: dict[str, int] | None = None, files: Sequence[int] = ()
) -> Child:
    """Start a process that calls `serve(descriptor, **more)` of a module; one thread each.

    Args:
        module: an importable name; its `serve` is given the descriptor of its socket.
        more: further arguments.
        files: open descriptors that the child keeps.
    """
    if not CAN_START:
        raise ConfigError("processes of our own need Linux or macOS; do the work in this one.")
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", START],
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the parent, which then ends its children
            pass_fds=[theirs.fileno(), *files],
            env={**os.environ, **ENVIRONMENT},
        )
        start = {"descriptor": theirs.fileno(), "path": sys.path, "module": module}
    child = Child(process, Connection(ours.detach()))
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:  # whoever reads will see
        stdin.write(json.dumps({**start, "more": more or {}}).encode() + b"\n")
    return child


def end_children(children: Iterable[Child]) -> None:
    """End them, whatever they are doing."""
    children = list(children)
    for child in children:
        child.connection.close()
    patience = time.monotonic() + PATIENCE
    for child in children:
        try:
            child.process.wait(timeout=max(0, patience - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()
