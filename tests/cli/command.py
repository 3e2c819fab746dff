"""Running `fedcord` in tests: in this process for speed, or in one of its own for truth."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.cli.main import main

FEDCORD = [sys.executable, "-m", "fedcord"]


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def fedcord(*words: str, cwd: Path) -> Done:
    """The command in this process; an unexpected exception fails the test by itself."""
    out, err = io.StringIO(), io.StringIO()
    path = list(sys.path)
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(in_one_process(words))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        finally:
            sys.path[:] = path
    return Done(code, out.getvalue(), err.getvalue())


def in_one_process(words: tuple[str, ...]) -> tuple[str, ...]:
    """A comparison whose runs start no processes, unless the test says how many."""
    is_plain = words[:1] == ("compare",) and not any(word.startswith("--jobs") for word in words)
    return (*words, "--jobs", "1") if is_plain else words


def fedcord_process(*words: str, cwd: Path) -> Done:
    """The command as a user starts it."""
    command = [*FEDCORD, *in_one_process(words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def result_of(*words: str, cwd: Path) -> dict[str, Any]:
    """The JSON of a command that must succeed."""
    done = fedcord(*words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values
