"""Fetching official files: resumable, verified, and visible under their name only when complete."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from fedcord.core.errors import DataError

Progress = Callable[[int, int | None], None]
"""Called with the bytes held so far and the total, when the server tells it."""

_CHUNK = 1 << 20
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")
_UNSATISFIED = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True)
class RemoteFile:
    """A published file and what its bytes must be.

    Attributes:
        url: the official address.
        path: where it goes, relative to the data folder, with '/' between parts.
        checksum: `sha256:…` or `md5:…`; always enforced.
        size: in bytes, where it is known.
        members: for a tar archive, the files to unpack from it; folder names inside the archive
            are ignored.
        unpack_to: the folder, relative to the data folder, that receives `members`.
    """

    url: str
    path: str
    checksum: str
    size: int | None = None
    members: tuple[str, ...] = ()
    unpack_to: str = ""


def download(
    remote: RemoteFile, folder: Path, *, progress: Progress | None = None, timeout: float = 30.0
) -> Path:
    """Fetch `remote` into `folder` and return its path.

    The bytes are collected in `<name>.part`. An interrupted transfer leaves that file, and the next
    call asks the server for the rest. The final name appears only after the checksum agreed, so
    another process can never read half a file.

    Args:
        remote: what to fetch.
        folder: the data folder; made when missing.
        progress: told how far the transfer is.
        timeout: seconds without an answer after which the transfer is given up.

    Raises:
        DataError: for every failure, saying whether the next call resumes.
    """
    if not remote.url.startswith(("https://", "http://")):
        raise DataError(f"{remote.url} cannot be fetched; only https and http addresses are.")
    target = folder / remote.path
    part = target.with_name(target.name + ".part")
    try:
        if target.exists():  # also where the folder cannot be written
            _verify(target, remote, "delete it or move it away")
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(part) as file:
            if target.exists():  # fetched by another process while we waited
                _verify(target, remote, "delete it or move it away")
                part.unlink(missing_ok=True)
                return target
            _fetch(remote, file, part, progress, timeout)
            file.flush()
            os.fsync(file.fileno())
            try:
                _verify(part, remote, f"it was deleted; try again, or fetch {remote.url} by hand")
            except DataError:
                part.unlink(missing_ok=True)
                raise
            part.replace(target)
    except OSError as error:
        raise DataError(
            f"cannot write to {target.parent} ({error.strerror or error}); make room or choose a "
            "writable data folder with --data-dir or FEDCORD_DATA."
        ) from error
    return target


class _Response(Protocol):
    status: int
    headers: http.client.HTTPMessage

    def read(self, amount: int, /) -> bytes: ...


def _fetch(
    remote: RemoteFile, file: IO[bytes], part: Path, progress: Progress | None, timeout: float
) -> None:
    """Bring `file` to the full length, from where it ends if the server can."""
    held = file.seek(0, os.SEEK_END)
    try:
        with _open(remote.url, held, timeout) as response:
            if held and response.status != http.HTTPStatus.PARTIAL_CONTENT:
                held = file.truncate(0)  # the server sends everything again
            elif held and not _continues(response, held):
                raise _ContinuationError
            _receive(remote, response, file, held, progress)
    except _ContinuationError:
        _restart(remote, file, part, progress, timeout)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and held:
            whole = _UNSATISFIED.fullmatch(error.headers.get("Content-Range", ""))
            if whole is not None and int(whole[1]) == held:
                return  # all bytes were here already; the checksum decides
            _restart(remote, file, part, progress, timeout)
            return
        raise DataError(
            f"{remote.url} answered {error.code} {error.reason}; fetch the file by hand into "
            f"{part.parent} or try again later."
        ) from error
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        TimeoutError,
        ConnectionError,
    ) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        file.flush()
        held = part.stat().st_size
        kept = f"; {held} bytes are kept in {part.name} and the next try continues there"
        raise DataError(
            f"{remote.url} could not be fetched ({reason or type(error).__name__}); check the "
            f"network{kept if held else ''}."
        ) from error


def _restart(
    remote: RemoteFile, file: IO[bytes], part: Path, progress: Progress | None, timeout: float
) -> None:
    file.truncate(0)
    _fetch(remote, file, part, progress, timeout)


class _ContinuationError(Exception):
    """The server continues at another byte than asked for."""


@contextlib.contextmanager
def _open(url: str, held: int, timeout: float) -> Iterator[_Response]:
    headers = {"Accept-Encoding": "identity", "User-Agent": "fedcord"}
    if held:
        headers["Range"] = f"bytes={held}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  scheme checked by download
    with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
        yield response


def _continues(response: _Response, held: int) -> bool:
    given = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return given is not None and int(given[1]) == held


def _receive(
    remote: RemoteFile, response: _Response, file: IO[bytes], held: int, progress: Progress | None
) -> None:
    length = response.headers.get("Content-Length", "")
    total = held + int(length) if length.isdigit() else None
    if remote.size is not None and total is not None and total != remote.size:
        raise http.client.HTTPException(
            f"the server offers {total} bytes, the official file has {remote.size}"
        )
    file.seek(held)
    while chunk := _read(response):
        file.write(chunk)
        held += len(chunk)
        if remote.size is not None and held > remote.size:
            break  # never fill a disk with what cannot be the file; the checksum refuses it
        if progress is not None:
            progress(held, total)
    if total is not None and held < total:
        raise http.client.HTTPException(f"the connection ended after {held} of {total} bytes")


def _read(response: _Response) -> bytes:
    try:
        return response.read(_CHUNK)
    except OSError as error:  # the network's, not the disk's: tell the two apart here
        raise http.client.HTTPException(str(error) or type(error).__name__) from error


def _verify(path: Path, remote: RemoteFile, advice: str) -> None:
    algorithm, _, expected = remote.checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        raise DataError(
            f"{path} has {algorithm} {found}, expected {expected} for {remote.url}; {advice}."
        )


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[IO[bytes]]:
    """`part` opened for reading and writing by one process at a time."""
    while True:
        # O_CREAT without O_TRUNC: what an interrupted call left must survive
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o644), "r+b")
        with file:
            _lock(file)
            try:
                current = part.stat().st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                current = False
            if current:  # otherwise another process renamed or deleted it while we waited
                yield file
                return


def _lock(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two simultaneous downloads are caught by the checksum only
        return
    fcntl.flock(file, fcntl.LOCK_EX)
