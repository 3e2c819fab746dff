import os
from pathlib import Path

import pytest

from fedcord.core.atomic import (
    STALE_SECONDS,
    is_temporary,
    remove_stale,
    write_atomically,
    writing_output,
)
from fedcord.core.errors import ConfigError


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.json"
    write_atomically(target, "old")
    monkeypatch.setattr("os.replace", _fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_what_is_written_bit_by_bit_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "x.csv"
    with writing_output(target) as file:
        file.write(b"one,")
        assert not target.exists()
        file.write(b"two")
    assert target.read_text() == "one,two"
    with pytest.raises(TypeError, match="bytes-like"), writing_output(target) as file:
        file.write("three")  # type: ignore[call-overload]
    assert target.read_text() == "one,two"
    assert [path.name for path in target.parent.iterdir()] == ["x.csv"]
    with (
        pytest.raises(ConfigError, match="choose a folder you may write to"),
        writing_output(target / "below.csv"),
    ):
        pass


def _fail(*_: object, **__: object) -> None:
    raise OSError("disk full")


def test_what_a_killed_writer_has_left_is_removed_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.json"
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _fail)
        patch.setattr(Path, "unlink", _fail)  # nobody cleans up after a kill
        with pytest.raises(OSError, match="disk full"):
            write_atomically(target, "new")
    (left,) = tmp_path.iterdir()
    assert is_temporary(left.name)
    remove_stale(tmp_path)
    assert left.exists()  # perhaps somebody is still writing
    long_ago = left.stat().st_mtime - STALE_SECONDS - 1
    os.utime(left, (long_ago, long_ago))
    (tmp_path / ".hidden").write_text("")
    os.utime(tmp_path / ".hidden", (long_ago, long_ago))
    remove_stale(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".hidden"]
