"""NumPy archives, read without pickle."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.checksum import read_checked
from fedcord.data.dataset import Array


def read_npz(path: Path, root: Path | None = None) -> Mapping[str, Array]:
    """All arrays of an `.npz` file by name."""
    data = read_checked(path, root)
    if data[:2] != b"PK":
        raise DataError(
            f"{path} is not an .npz archive (it starts with {data[:4].hex(' ') or 'nothing'}); "
            "write one with numpy.savez."
        )
    name = ""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {}
            for name in archive.files:
                arrays[name] = archive[name]
            return arrays
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                f"{path}: array '{name}' holds Python objects, which are never loaded; save it as "
                "numbers or fixed-width strings."
            ) from error
        raise DataError(
            f"{path} cannot be read{f' at {name!r}' if name else ''} ({error}); it is truncated or "
            "damaged: write or fetch it again."
        ) from error
