"""`fedcord report RUN --feature-map FILE`."""

import json
from pathlib import Path

import pytest

from tests.cli.command import fedcord


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished runs `proto` (models stay with clients) and `plus`."""
    folder = tmp_path_factory.mktemp("runs")
    for name, out in (("fedproto", "proto"), ("fedproto+", "plus")):
        words = ("run", name, "--out", out, "--rounds", "1", "--clients", "3", "--subset", "200")
        done = fedcord(*words, "--quiet", cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_picture_is_written_and_nothing_else(runs: Path) -> None:
    before = set(runs.rglob("*"))
    done = fedcord("report", "plus", "--feature-map", "map.svg", "--plane", "tsne", cwd=runs)
    assert (done.returncode, done.stdout) == (0, "Figure: map.svg\n")
    assert set(runs.rglob("*")) - before == {runs / "map.svg"}
    assert "prototypes" in (runs / "map.svg").read_text(encoding="utf-8")
    done = fedcord("report", "proto", "--feature-map", "2.png", "--client", "2", "--json", cwd=runs)
    assert json.loads(done.stdout) == {"figure": "2.png"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["proto", "--feature-map", "x.pdf"], "allowed endings: .png, .svg"),
        (["proto", "plus", "--feature-map", "x.svg"], "name one folder"),
        (["proto", "--feature-map", "x.svg", "--client", "7"], "client 7 has no model"),
        (["plus", "--feature-map", "x.svg", "--client", "0"], "leave --client out"),
        (["proto", "--feature-map", "x.svg", "--pareto", "y.svg"], "ask for one"),
        (["proto", "--client", "0"], "of use with --feature-map FILE only"),
        ([".", "--feature-map", "x.svg"], "no finished run"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(words: list[str], said: str, runs: Path) -> None:
    before = set(runs.rglob("*"))
    done = fedcord("report", *words, cwd=runs)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert set(runs.rglob("*")) == before
