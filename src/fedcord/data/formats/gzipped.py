"""Content of gzip and bzip2 files."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from pathlib import Path

from fedcord.core.errors import DataError
from fedcord.core.machine import data_limit, gigabytes


def unpacked(path: Path, data: bytes) -> bytes:
    """`data` of the file `path`, unpacked when its name ends in .gz or .bz2."""
    if path.suffix not in (".gz", ".bz2"):
        return data
    limit = data_limit()
    try:
        packed = io.BytesIO(data)
        with gzip.open(packed) if path.suffix == ".gz" else bz2.open(packed) as file:
            content = file.read(limit + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be unpacked ({error}); it is truncated or damaged: fetch it again."
        ) from error
    if len(content) > limit:
        raise DataError(
            f"{path} unpacks to more than {gigabytes(limit)}, a quarter of this machine's memory; "
            "it is not the published file: fetch it again."
        )
    return content
