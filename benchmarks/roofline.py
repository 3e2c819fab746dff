"""How fast the machine multiplies matrices: the ceiling of any training on it.

`python roofline.py` prints the GFLOP/s of one process with one thread.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE = 1024
SECONDS = 1.5


def gflops(cores: int) -> float:
    """Sum over `cores` single-threaded processes that multiply at the same time."""
    from launch import environment

    with tempfile.TemporaryDirectory() as private:
        running = [
            subprocess.Popen(
                [sys.executable, __file__],
                stdout=subprocess.PIPE,
                text=True,
                env=environment(1, Path(private)),
            )
            for _ in range(cores)
        ]
        return sum(float(process.communicate()[0]) for process in running)


def main() -> None:
    import torch

    torch.set_num_threads(1)
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    out = torch.empty(SIZE, SIZE)
    for _ in range(5):
        torch.mm(a, b, out=out)
    done, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < SECONDS:
        torch.mm(a, b, out=out)
        done += 1
    print(2 * SIZE**3 * done / spent / 1e9)


if __name__ == "__main__":
    main()
