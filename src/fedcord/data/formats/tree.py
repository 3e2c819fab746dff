"""A tree of small files, alike for a folder and for a zip archive."""

from __future__ import annotations

import io
import lzma
import os
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from fedcord.core.errors import DataError
from fedcord.data.checksum import check_listed, read_checked, read_sums

_LARGEST = 1 << 28  # bytes of one file in an archive; images are far below, archive bombs above


class Tree(Protocol):
    """Files by relative name with '/' between parts; names are sorted, hidden files left out."""

    @property
    def path(self) -> Path:
        """The folder or archive itself."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """All files."""
        ...

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders, empty ones included."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        ...


def open_tree(path: Path, root: Path | None = None) -> Tree:
    """The folder or zip archive at `path`."""
    if path.is_dir():
        return _folder(path)
    if path.suffix.lower() == ".zip":
        return _archive(path, root)
    raise DataError(f"{path} is neither a folder nor a .zip archive; give one of these.")


@dataclass(frozen=True)
class _Folder:
    path: Path
    names: tuple[str, ...]
    folders: tuple[str, ...]
    sums: dict[str, str] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        file = self.path / name
        data = read_checked(file)
        check_listed(file, data, self.sums, name)
        return data


@dataclass(frozen=True)
class _Archive:
    path: Path
    names: tuple[str, ...]
    folders: tuple[str, ...]
    archive: zipfile.ZipFile

    def read(self, name: str) -> bytes:
        if self.archive.getinfo(name).file_size > _LARGEST:
            raise DataError(
                f"{self.path}: '{name}' unpacks to more than {_LARGEST} bytes; remove it."
            )
        try:
            return self.archive.read(name)
        except (
            *(zipfile.BadZipFile, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError),
            *(RuntimeError, NotImplementedError),  # a password; a compression Python has not
        ) as error:
            raise DataError(
                f"{self.path}: '{name}' cannot be read ({error}); the archive is damaged, locked "
                "with a password or packed in a way that is not known: fetch or pack it again."
            ) from error


def _folder(path: Path) -> Tree:
    names: list[str] = []
    folders: list[str] = []
    seen: set[tuple[int, int]] = set()

    def refuse(error: OSError) -> None:
        raise DataError(
            f"'{error.filename}' cannot be read ({error.strerror}); change its permissions, or "
            "move it out of the folder."
        ) from error

    # not rglob, which passes over folders that it may not read as if they were empty
    for place, inside, files in os.walk(path, onerror=refuse, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:  # a link back to a folder above
            inside.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        inside[:] = [name for name in inside if not _is_hidden((name,))]
        here = Path(place)
        folders += [(here / name).relative_to(path).as_posix() for name in inside]
        own = (here / name for name in files if not _is_hidden((name,)))
        names += [file.relative_to(path).as_posix() for file in own if file.is_file()]
    return _Folder(path, tuple(sorted(names)), tuple(sorted(folders)), dict(read_sums(path)))


def _archive(path: Path, root: Path | None) -> Tree:
    try:
        archive = zipfile.ZipFile(io.BytesIO(read_checked(path, root)))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DataError(
            f"{path} is not a readable zip archive ({error}); it is truncated or damaged: fetch it "
            "again."
        ) from error
    names: list[str] = []
    folders: set[str] = set()
    for info in archive.infolist():
        name = PurePosixPath(info.filename)
        # nothing is ever unpacked to disk, but such a name shows an archive made to do harm
        if name.is_absolute() or ".." in name.parts or "\\" in info.filename:
            raise DataError(
                f"{path} holds the unsafe name '{info.filename}'; do not use this archive."
            )
        if _is_hidden(name.parts):
            continue
        folders.update(str(above) for above in name.parents if above.parts)
        if info.is_dir():
            folders.add(str(name))
        else:
            names.append(info.filename)
    return _Archive(path, tuple(sorted(names)), tuple(sorted(folders)), archive)


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)
