"""Files of a run are recognised again, with fedcord and without."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fedcord.core.errors import CheckpointError
from fedcord.store.checksums import FINISHED_FILES, check_run
from fedcord.store.run_folder import RunFolder


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = RunFolder(tmp_path)
    with folder.lock():
        folder.write_start({"algorithm": "fedavg"}, {"spec": "iid"}, {"commit": None})
        folder.append_metrics({"round": 1, "accuracy": 0.5}, to_disk=True)
        folder.write_result({"accuracy": 0.5})
    return tmp_path


def test_a_whole_run_is_recognised(finished: Path) -> None:
    assert check_run(finished)
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("no sha256sum here")
    done = subprocess.run([tool, "--check", "--strict", "SHA256SUMS"], cwd=finished, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("name", FINISHED_FILES)
def test_a_changed_or_missing_file_is_named(finished: Path, name: str) -> None:
    path = finished / name
    path.write_text(path.read_text() + " ")
    with pytest.raises(CheckpointError, match=rf"{name}' is not as fedcord wrote it: its SHA-256"):
        check_run(finished)
    path.unlink()
    if name == "result.json":  # then the run is not finished, and the rest is as it was
        assert check_run(finished)
    else:
        with pytest.raises(CheckpointError, match=rf"{name}' .* it is missing"):
            check_run(finished)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "does not list config.toml"), ("0\n", "not a checksum"), ("\udcff\n", "not a checksum")],
)
def test_damaged_checksums_are_an_error(finished: Path, text: str, words: str) -> None:
    (finished / "SHA256SUMS").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=words):
        check_run(finished)


def test_runs_of_the_version_before_have_none(finished: Path) -> None:
    (finished / "SHA256SUMS").unlink()
    assert not check_run(finished)
