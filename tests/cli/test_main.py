"""How the command ends when the machine fails it."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import FEDCORD, fedcord

RUN = ["run", "fedavg", "--clients", "3", "--rounds", "1", "--subset", "60", "--model", "mlp:4"]


def test_a_full_disk_is_one_message_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        done = fedcord(*RUN, "--out", "run", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == (
        "error: No space left on device: 'somewhere'; put that right and give the same command "
        "again, with --resume if it runs something."
    )
    assert fedcord(*RUN, "--out", "run", "--resume", cwd=tmp_path).returncode == 0


def test_a_file_in_place_of_the_folder_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    done = fedcord(*RUN, "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr == "error: a file is in the way of 'run'; choose another folder with --out.\n"
    )
    assert (tmp_path / "run").read_text() == "mine"


def test_a_folder_nobody_may_read_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(Path, "iterdir", refuse)
    done = fedcord(*RUN, "--out", "run", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Permission denied: 'run'; put that right")


@pytest.mark.parametrize("words", [["list", "algorithms"], ["list", "models", "--json"]])
def test_a_reader_that_leaves_ends_the_command_quietly(words: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*FEDCORD, *words], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


def test_output_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with full.open("w") as file:
        done = subprocess.run(
            [*FEDCORD, "list", "partitions"],
            cwd=tmp_path,
            stdout=file,
            stderr=subprocess.PIPE,
            check=False,
        )
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("error: No space left on device; put that right")
    assert done.returncode == 1
