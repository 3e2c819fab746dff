"""The process of a worker, run as a file: it finds its parent first and imports PyTorch second.

It reads one line of JSON from standard input: its socket, the file of data and the parent's import
path. From then on it ends as soon as the parent does, whatever it is doing, so that a killed run
leaves no processes behind. Only the standard library is imported here.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import sys
import threading


def main() -> None:
    """Wait for the parent's word, then serve it."""
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        return  # the parent has ended before it could say what to do
    start = json.loads(line)
    watch = threading.Thread(target=_end_with_parent, args=[start["descriptor"]], daemon=True)
    watch.start()
    sys.path[:] = start["path"]
    worker = importlib.import_module("fedcord.engine.transports.worker")
    worker.serve(start["descriptor"], start["data"])


def _end_with_parent(descriptor: int) -> None:
    """Wait until nobody holds the other end of the socket; messages do not wake us."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
