"""The lock, and that its POSIX half is not asked for where there is none."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedcord.core.errors import CheckpointError
from fedcord.store import lock


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with (
        lock.lock(path),
        pytest.raises(CheckpointError, match="another run is writing to"),
        lock.lock(path),
    ):
        pass
    with lock.lock(path):
        pass  # free again


def test_windows_locks_with_its_own_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        if held:
            raise PermissionError(13, "Permission denied")
        held.append(mode)

    windows = ModuleType("msvcrt")
    vars(windows).update(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails, as it does there
    monkeypatch.setattr(sys, "platform", "win32")
    there = runpy.run_path(str(lock.__file__))
    with (
        there["lock"](tmp_path / ".lock"),
        pytest.raises(CheckpointError, match="another run is writing to"),
        there["lock"](tmp_path / ".lock"),
    ):
        pass
    assert held == [2]
