"""Reading files whose bytes are known in advance.

A subset in an official format is legitimate and cannot have the official checksum. A file of
exactly the official size with other bytes is not a subset but a damaged file, and is refused. A
folder may also carry its own `SHA256SUMS`, which is always enforced for the files it lists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedcord.core.errors import DataError
from fedcord.core.machine import data_limit, gigabytes
from fedcord.core.regular_files import check_regular

SUMS_FILE = "SHA256SUMS"
_SUMS_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


@dataclass(frozen=True)
class Official:
    """Size and SHA-256 of a file as published (for gzip: of what it unpacks to)."""

    size: int
    sha256: str


def read_checked(path: Path, root: Path | None = None, official: Official | None = None) -> bytes:
    """The bytes of `path`, after comparing them with every checksum known for it.

    Args:
        path: the file.
        root: the data folder it was found in; `SHA256SUMS` is looked for from the file's own
            folder up to there.
        official: what the published file looks like.
    """
    try:
        size = check_regular(path)
        if size > data_limit():
            raise DataError(
                f"{path} has {gigabytes(size)}; at most {gigabytes(data_limit())}, a quarter of "
                "this machine's memory, are read: keep fewer rows."
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}); check path and permissions."
        ) from error
    for folder in _folders_up_to(path.parent, root):
        check_listed(path, data, read_sums(folder), path.relative_to(folder).as_posix())
    if official is not None:
        check_official(path, data, official)
    return data


def check_official(path: Path, data: bytes, official: Official) -> None:
    """Refuse `data` of the official size whose SHA-256 is not the official one."""
    if len(data) != official.size:
        return
    found = hashlib.sha256(data).hexdigest()
    if found != official.sha256:
        raise DataError(
            f"{path} has the size of the official file ({official.size} bytes) but SHA-256 "
            f"{found}, "
            f"expected {official.sha256}; the file is damaged or altered: delete it and fetch it "
            "again."
        )


def check_listed(path: Path, data: bytes, sums: Mapping[str, str], name: str) -> None:
    """Refuse `data` that differs from its line in a `SHA256SUMS` file; unlisted names pass."""
    expected = sums.get(name)
    if expected is None:
        return
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} has SHA-256 {found}, but {SUMS_FILE} lists {expected} for '{name}'; fetch the "
            f"file again, or correct {SUMS_FILE} if the change is intended."
        )


def read_sums(folder: Path) -> Mapping[str, str]:
    """The checksums `folder` carries, by relative path; empty when it carries none."""
    path = folder / SUMS_FILE
    if not path.is_file():
        return {}
    sums = {}
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        if not line.strip():
            continue
        match = _SUMS_LINE.fullmatch(line)
        if match is None:
            raise DataError(
                f"{path} line {number} is not 'checksum  name'; write it with sha256sum."
            )
        sums[match[2].removeprefix("./")] = match[1].lower()
    return sums


def _folders_up_to(folder: Path, root: Path | None) -> tuple[Path, ...]:
    if root is None or root not in folder.parents:
        return (folder,)
    return (folder, *folder.parents[: folder.parents.index(root) + 1])
