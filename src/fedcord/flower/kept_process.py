"""Runs a command for as long as somebody holds the other end of standard input.

Started as `python -P kept_process.py LOG COMMAND…`. Says the command's process number on standard
output. When standard input ends, because it was closed or because whoever held it was killed, the
command and all its children are ended: politely, and two seconds later by force.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

POLITE_SECONDS = 2.0


def main(log: str, command: list[str]) -> int:
    """Run it; the command's own exit code."""
    with open(log, "ab") as output:
        child = subprocess.Popen(  # noqa: S603 - our parent's command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=_end_with_parent, args=(child,), daemon=True).start()
    code = child.wait()
    _signal(child.pid, signal.SIGKILL)  # children that have outlived it
    return code


def _end_with_parent(child: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # a buffered reader would be in the way at our end
        pass
    _signal(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(POLITE_SECONDS)
    _signal(child.pid, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
