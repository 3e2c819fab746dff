"""How many threads PyTorch computes with, for a stretch of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with `count` threads and restore the former number.

    The number of threads changes the order of floating-point sums, so equal bits need equal
    numbers. One thread is also the fastest per core and the only number that survives a busy
    neighbour: OpenMP's default threads spin while they wait.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
