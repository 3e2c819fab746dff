"""The idx format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import Official, check_official, read_checked
from fedcord.data.dataset import Array
from fedcord.data.formats.gzipped import unpacked

_UINT8 = 8


def read_idx(
    path: Path, rank: int, root: Path | None = None, official: Official | None = None
) -> Array:
    """The uint8 array of an idx file.

    Args:
        path: the file; `.gz` is unpacked.
        rank: how many axes it must have (images 3, labels 1).
        root: the data folder it lies in.
        official: the published *content*: packing it again does not change what it holds.
    """
    data = unpacked(path, read_checked(path, root))
    if len(data) < 4 or data[0] or data[1] or data[2] != _UINT8 or data[3] != rank:
        raise DataError(
            f"{path} starts with bytes {data[:4].hex(' ') or 'none'}, expected 00 00 08 0{rank} "
            f"(idx, unsigned bytes, {rank} axes); it is another kind of file: fetch it again."
        )
    start = 4 + 4 * rank
    shape = tuple(
        int.from_bytes(data[at : at + 4], "big") for at in range(4, min(start, len(data)), 4)
    )
    expected = start + math.prod(shape)
    if len(data) != expected:
        raise DataError(
            f"{path}: its header announces shape {list(shape)}, that is {expected} bytes, but it "
            f"has {len(data)}; the file is truncated or damaged: fetch it again."
        )
    if official is not None:
        check_official(path, data, official)
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()
