"""NumPy archives, read without pickle and never larger than announced and allowed."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from fedcord.core.errors import DataError
from fedcord.core.machine import data_limit, gigabytes
from fedcord.data.checksum import read_checked
from fedcord.data.dataset import Array

_SUFFIX = ".npy"
_LOCKED = 0x1  # the flag of a zip member that is encrypted


def read_npz(path: Path, root: Path | None = None) -> Mapping[str, Array]:
    """All arrays of an `.npz` file by name.

    What the archive announces is added up before anything is unpacked: a few megabytes of zeros
    can stand for more than the machine has.
    """
    data = read_checked(path, root)
    if data[:2] != b"PK":
        raise DataError(
            f"{path} is not an .npz archive (it starts with {data[:4].hex(' ') or 'nothing'}); "
            "write one with numpy.savez."
        )
    name = ""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(path, members)
            arrays = {}
            for member in members:
                name = member.filename.removesuffix(_SUFFIX)
                with archive.open(member) as file:
                    arrays[name] = _array(path, name, file, member.file_size)
            return arrays
    except (DataError, MemoryError):
        raise
    except Exception as error:  # zipfile and numpy raise many types on damaged bytes
        raise DataError(
            f"{path} cannot be read{f' at {name!r}' if name else ''} ({error}); it is truncated or "
            "damaged: write or fetch it again."
        ) from error


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        if member.flag_bits & _LOCKED:
            raise DataError(
                f"{path}: '{member.filename}' is locked with a password; save the arrays without."
            )
        if not member.filename.endswith(_SUFFIX):
            raise DataError(
                f"{path} holds '{member.filename}', which is no array; keep only what numpy.savez "
                "writes."
            )
    total, limit = sum(member.file_size for member in members), data_limit()
    if total > limit:
        raise DataError(
            f"{path} unpacks to {gigabytes(total)}; at most {gigabytes(limit)}, a quarter of this "
            "machine's memory, are read: keep fewer rows, or smaller numbers such as uint8 images "
            "and float32 vectors."
        )


def _array(path: Path, name: str, file: IO[bytes], size: int) -> Array:
    """One array; its own header must announce exactly the bytes there are."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    else:
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    if dtype.hasobject:
        raise DataError(
            f"{path}: array '{name}' holds Python objects, which are never loaded; save it as "
            "numbers or fixed-width strings."
        )
    expected = math.prod(shape) * dtype.itemsize
    if expected != size - file.tell():
        raise ValueError(
            f"its header announces {dtype} {list(shape)}, that is {expected} bytes, and "
            f"{size - file.tell()} follow"
        )
    flat = np.frombuffer(file.read(expected), dtype) if dtype.itemsize else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
