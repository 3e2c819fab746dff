"""Keeping freed memory in the process, where the C library allows it.

A training step allocates and frees the same large blocks again and again. By default glibc hands
them back to the system each time and pays a page fault for every page when it asks anew, up to a
fifth of a convolutional step here.
"""

from __future__ import annotations

import ctypes

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = 32 * 2**20, 2**31 - 1, 64 * 2**20

KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(_MMAP_THRESHOLD),
    "MALLOC_TRIM_THRESHOLD_": str(_TRIM_THRESHOLD),
    "MALLOC_TOP_PAD_": str(_TOP_PAD),
}
"""Environment of a new process that keeps what it frees; ignored by other C libraries."""


def keep_freed_memory() -> None:
    """The same for this process; does nothing where there is no `mallopt`."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(-3, _MMAP_THRESHOLD)  # M_MMAP_THRESHOLD
    mallopt(-1, _TRIM_THRESHOLD)  # M_TRIM_THRESHOLD
    mallopt(-2, _TOP_PAD)  # M_TOP_PAD
