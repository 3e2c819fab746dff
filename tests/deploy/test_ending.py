"""However `fedcord flower run` ends, nothing of it is left running."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import FEDCORD
from tests.deploy.processes import PATIENCE, wait_until


def _started_in(folder: Path) -> list[str]:
    """Commands of living processes whose Flower lives in a folder."""
    mark, found = f"FLWR_HOME={folder}".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().decode().replace("\0", " "))
        except OSError:
            continue  # it has just ended, or is somebody else's
    return [command for command in found if command]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_command(number: signal.Signals, tmp_path: Path) -> None:
    command = [*FEDCORD, "flower", "run", "fedavg", "--nodes", "2", "--out", "run"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            wait_until(
                lambda: (
                    sum("flower-superexec" in c for c in _started_in(tmp_path)) == 3
                    and any("flwr-serverapp" in c for c in _started_in(tmp_path))
                ),
                "a SuperLink, two SuperNodes and the server app",
            )
            running.send_signal(number)
            _, said = running.communicate(timeout=PATIENCE)
        finally:
            running.kill()
    wait_until(lambda: not _started_in(tmp_path), "everything has ended")
    if number == signal.SIGINT:
        assert running.returncode == 130
        assert "--resume goes on" in said
        assert "Traceback" not in said
