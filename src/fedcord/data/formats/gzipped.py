"""Content of gzip and bzip2 files."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path

from fedcord.core.errors import DataError


def unpacked(path: Path, data: bytes) -> bytes:
    """`data` of the file `path`, unpacked when its name ends in .gz or .bz2."""
    try:
        if path.suffix == ".gz":
            return gzip.decompress(data)
        if path.suffix == ".bz2":
            return bz2.decompress(data)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be unpacked ({error}); it is truncated or damaged: fetch it again."
        ) from error
    return data
