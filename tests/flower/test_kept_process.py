"""Commands end with whoever holds them, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedcord.core.errors import ProtocolError
from fedcord.flower.network import KEEPER, LocalNetwork, free_ports, quoted

STUBBORN = "trap '' TERM; sleep 600 & echo $!; wait; wait"
"""Ignores a polite word, and has a child."""


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return "State:\tZ" not in status.read_text() if status.exists() else True


def _wait_until_gone(pids: list[int]) -> None:
    ends = time.monotonic() + 60
    while any(map(_is_there, pids)):
        assert time.monotonic() < ends, pids
        time.sleep(0.02)


def _child_in(log: Path) -> int:
    ends = time.monotonic() + 60
    while not (log.exists() and log.read_text().strip()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return int(log.read_text())


def test_a_command_and_its_children_end_when_the_pipe_is_closed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    keeper = subprocess.Popen(
        [sys.executable, "-P", KEEPER, str(log), "sh", "-c", STUBBORN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert keeper.stdout is not None
    assert keeper.stdin is not None
    with keeper.stdout as told:
        command = int(told.readline())
    pids = [command, _child_in(log)]
    assert all(map(_is_there, pids))
    keeper.stdin.close()
    _wait_until_gone(pids)
    assert keeper.wait(60) != 0


def test_a_command_ends_when_its_holder_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)\n"
            "time.sleep(600)",
            *[sys.executable, "-P", KEEPER, str(log), "sh", "-c", STUBBORN],
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    with holder.stdout as told:
        command = int(told.readline())
    pids = [command, _child_in(log)]
    holder.kill()
    holder.wait()
    _wait_until_gone(pids)


def test_a_command_that_ends_by_itself_says_how(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-P", KEEPER, str(log), "sh", "-c", "echo no; exit 7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as keeper:
        assert keeper.wait(60) == 7  # while its input is still held
    assert log.read_text() == "no\n"


def test_a_superlink_that_does_not_start_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "flower-superlink").write_text("#!/bin/sh\necho no room for $FLWR_HOME\nexit 3\n")
    (programs / "flower-superlink").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    (programs / "python").symlink_to(os.path.realpath("/proc/self/exe"))
    network = LocalNetwork(tmp_path / "net")
    with pytest.raises(ProtocolError, match=r"SuperLink did not start: no room for .*net/flower"):
        network.start()
    network.close()


def test_ports_differ_and_words_that_flower_cannot_read_are_refused() -> None:
    assert len(set(free_ports(5))) == 5
    assert quoted("/a b/site.toml") == '"/a b/site.toml"'
    with pytest.raises(ProtocolError, match="cannot take"):
        quoted('a"b')
