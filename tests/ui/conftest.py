"""One real run, whose files tests lay out as a run writes them, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import fedcord


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ui")
    words = ("run", "fedavg", "--clients", "3", "--subset", "150", "--rounds", "3", "--out", "run")
    done = fedcord(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


class GrowingRun:
    """A run folder to which a finished run's files are added as time goes by."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.lines = (source / "metrics.jsonl").read_text().splitlines(keepends=True)
        folder.mkdir(parents=True)

    def begin(self) -> None:
        (self.folder / "config.toml").write_bytes((self.source / "config.toml").read_bytes())

    def add_rounds(self, until: int, and_half: bool = False) -> None:
        text = "".join(self.lines[:until])
        if and_half:
            text += self.lines[until][: len(self.lines[until]) // 2]
        (self.folder / "metrics.jsonl").write_text(text)

    def finish(self) -> None:
        self.add_rounds(len(self.lines))
        (self.folder / "result.json").write_bytes((self.source / "result.json").read_bytes())

    def fail(self, message: str) -> None:
        text = f'{{"seed": 0, "error": "NumericalError", "message": "{message}"}}'
        (self.folder / "failure.json").write_text(text)


@pytest.fixture
def growing(finished_run: Path, tmp_path: Path) -> GrowingRun:
    return GrowingRun(finished_run, tmp_path / "runs" / "study" / "fedavg" / "seed-0")
