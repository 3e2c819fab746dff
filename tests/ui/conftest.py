"""One real run, whose files tests lay out as a run writes them, and a real server over them."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcord.ui.server import Server
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


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()


class Running:
    def __init__(self, root: Path) -> None:
        self.server = Server(root, 0)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=10)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=names)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def stop(self) -> None:
        if not self.thread.is_alive():
            return
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def running(growing: GrowingRun) -> Iterator[Running]:
    (growing.folder.parents[2] / "secret.txt").write_text("not for anybody")
    found = Running(growing.folder.parents[2])
    yield found
    found.stop()
