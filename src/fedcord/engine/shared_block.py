"""Named tensors in one file that several processes map into memory.

Every tensor starts at a multiple of 64 bytes, as PyTorch's own memory does: matrix products round
differently where their operands start elsewhere, and engines must give equal bits.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from fedcord.core.tensors import Tensors, num_bytes, raw_bytes

ALIGNMENT = 64
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only the folder of a nameless file


def nameless_file(tensors: Tensors) -> IO[bytes]:
    """An empty file for `write_block` that nobody can leave behind, in memory if that has room."""
    wanted = num_bytes(tensors) + ALIGNMENT * (len(tensors) + 1)
    is_there = os.access(SHARED_MEMORY, os.W_OK)
    has_room = is_there and shutil.disk_usage(SHARED_MEMORY).free > wanted  # containers have little
    return tempfile.TemporaryFile(dir=SHARED_MEMORY if has_room else None)


def write_block(tensors: Tensors, file: IO[bytes]) -> list[list[Any]]:
    """Fill an empty file, and return the plain description that `map_block` needs."""
    layout: list[list[Any]] = []
    for name, tensor in tensors.items():
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        kind = str(tensor.dtype).removeprefix("torch.")
        layout.append([name, kind, list(tensor.shape), file.tell()])
        file.write(raw_bytes(tensor).data)
    file.write(b"\0" * ALIGNMENT)  # nothing can be mapped from an empty file
    file.flush()
    return layout


def map_block(descriptor: int, layout: Sequence[Sequence[Any]]) -> dict[str, Tensor]:
    """The tensors of an open file as views of it, which is not read before it is used."""
    block = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)  # own changes stay own
    found = {}
    for name, kind, shape, start in layout:
        dtype, count = getattr(torch, kind), torch.Size(shape).numel()
        if count:
            found[name] = torch.frombuffer(block, dtype=dtype, count=count, offset=start)
            found[name] = found[name].reshape(shape)
        else:
            found[name] = torch.zeros(shape, dtype=dtype)
    return found
