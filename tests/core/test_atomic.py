from pathlib import Path

import pytest

from fedcord.core.atomic import write_atomically


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


def _fail(*_: object) -> None:
    raise OSError("disk full")
