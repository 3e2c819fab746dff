"""Chosen files out of a tar archive."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fedcord.core.errors import DataError

_LARGEST = 1 << 30  # bytes; no official member is near it, an archive bomb is


def read_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of the members with the given base names.

    Nothing is written, and folder parts inside the archive are ignored, so an archive cannot place
    a file anywhere. Links and devices are not followed.
    """
    wanted = set(names)
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                if name not in wanted or not member.isfile():
                    continue
                if member.size > _LARGEST:
                    raise DataError(
                        f"{path}: '{member.name}' announces {member.size} bytes, at most "
                        f"{_LARGEST} are read; this is not the official archive, fetch it again."
                    )
                content = archive.extractfile(member)
                assert content is not None  # isfile() was true
                found[name] = content.read()
                if len(found) == len(wanted):
                    break
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"{path} is not a readable tar archive ({error}); delete it and fetch it again."
        ) from error
    missing = sorted(wanted - found.keys())
    if missing:
        raise DataError(
            f"{path} lacks {', '.join(missing)}; it is cut or another archive: fetch it again."
        )
    return found
