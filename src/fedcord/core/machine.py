"""How much memory there is, so that a file too large for it is refused instead of read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_CONTAINER_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_UNKNOWN = 8 << 30
"""Bytes assumed where the system does not say."""


def memory_bytes() -> int:
    """The machine's memory, or what its container may use of it."""
    try:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        found = [_UNKNOWN]
    for path in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no container, or the word "max"
            found.append(int(path.read_text()))
    return min(found)


def data_limit() -> int:
    """The most bytes of data that are read at once: a quarter of the memory.

    Data exists up to three times while it is converted, divided and dealt out to clients.
    """
    return memory_bytes() // 4


def gigabytes(size: int) -> str:
    """A number of bytes for a message.

    >>> gigabytes(10_400_000_000), gigabytes(40_000_000_000_000)
    ('10.4 GB', '40,000 GB')
    """
    number = size / 1e9
    return f"{number:,.0f} GB" if number >= 1000 else f"{number:.3g} GB"
