"""The page as a browser shows it: what its script makes of the state, and nothing amiss."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ui.conftest import GrowingRun, Running

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def shown(running: Running, profile: Path) -> str:
    """The page after a look, and whatever its console said."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            *(CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr"),
            *("--virtual-time-budget=1500", "--dump-dom", running.server.address),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    return done.stdout


@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed; on Debian: apt-get install chromium"
)
def test_runs_are_drawn_as_they_grow(running: Running, growing: GrowingRun, tmp_path: Path) -> None:
    assert "No run has begun here yet" in shown(running, tmp_path / "profile")
    growing.begin()
    growing.add_rounds(2)
    growing.fail("<img src=x onerror=document.title=1> is no weight")
    page = shown(running, tmp_path / "profile")
    assert "1 folder with 1 run: 1 failed" in page
    assert "2 of 3" in page
    assert "<polyline" in page
    assert "&lt;img src=x onerror=document.title=1&gt; is no weight" in page
    assert "<title>fedcord: runs</title>" in page
