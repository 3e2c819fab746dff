"""The process of a child, run as a file: it finds its parent first and imports PyTorch second.

It reads one line of JSON from standard input: its socket, the parent's import path, and the module
whose `serve` does the work. From then on it ends as soon as the parent does, whatever it is doing,
so that a killed run leaves no processes behind. Only the standard library is imported here.
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
    importlib.import_module(start["module"]).serve(start["descriptor"], **start["more"])


def _end_with_parent(descriptor: int) -> None:
    """Wait until nobody holds the other end of the socket; messages do not wake us."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
