"""Where data sets are looked for, and what is said when one is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcord.core.atomic import write_atomically
from fedcord.core.errors import DataError
from fedcord.core.folders import ENVIRONMENT
from fedcord.data.download import Progress, RemoteFile, download
from fedcord.data.formats.tar import read_members


@dataclass(frozen=True)
class Wanted:
    """The files of one data set.

    Attributes:
        dataset: its registered name.
        places: relative paths (patterns allowed) of files or folders, best first; one is enough.
        holds: for a folder, groups of alternative names; it must hold one of each group.
        remote: how to fetch it; empty when it has no address a program may use.
        advice: where a person gets it when `remote` is empty.
    """

    dataset: str
    places: tuple[str, ...]
    holds: tuple[tuple[str, ...], ...] = ()
    remote: tuple[RemoteFile, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class Found:
    """A file or folder of a data set, and the data folder it lies in."""

    path: Path
    root: Path

    def pick(self, names: Sequence[str]) -> Path:
        """The first of the alternative names that the found folder holds."""
        return next(self.path / name for name in names if (self.path / name).is_file())


@dataclass(frozen=True)
class Search:
    """How to get hold of files: where to look, and whether fetching them is allowed."""

    folders: tuple[Path, ...]
    allow_download: bool = False
    progress: Progress | None = None

    def find(self, wanted: Wanted) -> Found | None:
        """The first complete place, or None."""
        return next(
            (Found(p, root) for p, root in self._places(wanted) if not _lacking(p, wanted)), None
        )

    def require(self, wanted: Wanted) -> Found:
        """The first complete place; fetched if allowed, an explanation otherwise."""
        found = self.find(wanted)
        if found is None and self.allow_download and wanted.remote:
            self._fetch(wanted)
            found = self.find(wanted)
        if found is None:
            raise DataError(self._explain(wanted))
        return found

    def _places(self, wanted: Wanted) -> list[tuple[Path, Path]]:
        return [
            (path, root)
            for root in self.folders
            for place in wanted.places
            for path in sorted(root.glob(place))
            if not path.name.endswith((".part", ".tmp"))
        ]

    def _fetch(self, wanted: Wanted) -> None:
        if not self.folders:
            raise DataError(self._explain(wanted))
        folder = self.folders[0]
        for remote in wanted.remote:
            inside = [folder / remote.unpack_to / member for member in remote.members]
            if inside and all(path.is_file() for path in inside):
                continue
            path = download(remote, folder, progress=self.progress)
            if remote.members:
                for name, data in read_members(path, remote.members).items():
                    target = folder / remote.unpack_to / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(target, data)
                path.unlink()

    def _explain(self, wanted: Wanted) -> str:
        folders = ", ".join(
            f"{folder}{'' if folder.is_dir() else ' (does not exist)'}" for folder in self.folders
        )
        folders = folders or "nowhere, since this user has no home folder"
        lines = [
            f"data set '{wanted.dataset}' was not found.",
            f"  searched: {folders}",
            f"  wanted: {' or '.join(wanted.places)}",
        ]
        if wanted.holds:
            lines.append(f"  holding: {', '.join(names[0] for names in wanted.holds)}")
        for path, _ in self._places(wanted):
            lines.append(f"  incomplete: {path} lacks {', '.join(_lacking(path, wanted))}")
        hosts = ", ".join(dict.fromkeys(remote.url.rpartition("/")[0] for remote in wanted.remote))
        fetch = f"allow the download from {hosts} with --download" if hosts else wanted.advice
        choice = (
            f", or {fetch}" if self.folders else ""
        )  # without a folder there is no place for it
        lines.append(f"  do: name the folder that has it with --data-dir or {ENVIRONMENT}{choice}.")
        return "\n".join(lines)


def _lacking(path: Path, wanted: Wanted) -> list[str]:
    """The names a folder should hold and does not; files are taken as they are."""
    if not path.is_dir():
        return []
    return [names[0] for names in wanted.holds if not any((path / name).exists() for name in names)]
