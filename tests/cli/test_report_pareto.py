"""`fedcord report DIR… --pareto FILE`."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import fedcord, result_of
from tests.report.conftest import write_run

METHODS = {"local": (0, 0.4), "afl": (4000, 0.7), "fedavg": (90_000, 0.8), "moon": (95_000, 0.7)}


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """A folder with the studies `low` and `high`, on other partitions with other seeds."""
    for study, partition, seeds in (("low", "dirichlet:0.1", 3), ("high", "dirichlet:0.5", 2)):
        for name, (size, accuracy) in METHODS.items():
            for seed in range(seeds):
                write_run(
                    tmp_path / study,
                    name,
                    seed,
                    accuracy + seed / 1000,
                    partition_hash=f"{study}-{seed}",
                    config={"partition": partition},
                    result={"bytes_up": size, "bytes_down": 0},
                )
    return tmp_path


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_each_folder_is_a_panel_and_nothing_else_is_written(studies: Path) -> None:
    before = names_in(studies)
    done = fedcord("report", "low", "high", "--pareto", "figures/both.svg", cwd=studies)
    assert done.returncode == 0, done.stderr
    text = (studies / "figures" / "both.svg").read_text(encoding="utf-8")
    for words in ("digits, dirichlet:0.1", "digits, dirichlet:0.5", "0 B", "100 kB"):
        assert words in text
    for words in (
        "digits, dirichlet:0.1. Not beaten in both accuracy and bytes: local, afl and fedavg.",
        "digits, dirichlet:0.5. Not beaten in both accuracy and bytes: local, afl and fedavg.",
        f"Figure: {Path('figures') / 'both.svg'}",
    ):
        assert words in done.stdout
    assert names_in(studies) - before == {"figures", "figures/both.svg"}


def test_json_has_every_panel(studies: Path) -> None:
    values = result_of("report", "high", "low", "--pareto", "both.png", cwd=studies)
    assert (studies / "both.png").read_bytes().startswith(b"\x89PNG")
    assert values["figure"] == "both.png"
    assert [panel["folder"] for panel in values["panels"]] == ["high", "low"]
    assert [panel["seeds"] for panel in values["panels"]] == [[0, 1], [0, 1, 2]]
    first = values["panels"][0]
    assert first["title"] == "digits, dirichlet:0.5"
    assert first["frontier"] == ["local", "afl", "fedavg"]
    points = {point["algorithm"]: point for point in first["points"]}
    assert list(points) == ["local", "afl", "fedavg", "moon"]
    assert points["moon"]["beaten_by"] == ["afl", "fedavg"]
    assert points["fedavg"]["bytes"] == METHODS["fedavg"][0]
    assert json.loads(json.dumps(points["local"]))["bytes"] == 0


def test_studies_with_equal_settings_are_told_apart_by_folder(studies: Path) -> None:
    (studies / "low").rename(studies / "again")
    for name in METHODS:
        write_run(studies / "more", name, 0, 0.5)
    values = result_of("report", "again", "more", "--pareto", "x.svg", cwd=studies)
    titles = [panel["title"] for panel in values["panels"]]
    assert titles == ["digits, dirichlet:0.1, again", "digits, dirichlet:0.1, more"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pareto", "figure.pdf"], "'figure.pdf'; allowed endings: .png, .svg"),
        (["--pareto", "figure"], "'figure'; allowed endings: .png, .svg"),
        (["--pareto", "low/file/x.svg"], "cannot be written"),
        (["--pareto", "folder.svg"], "cannot be written"),
        (["--pareto", "x.svg", "--against", "afl"], "ask for one"),
        (["nowhere", "--pareto", "x.svg"], "no such folder: nowhere"),
        (["empty", "--pareto", "x.svg"], "no run was found in empty"),
    ],
)
def test_mistakes_are_answered_and_nothing_is_written(
    studies: Path, words: list[str], message: str
) -> None:
    (studies / "low" / "file").write_text("in the way")
    (studies / "folder.svg").mkdir()
    (studies / "empty").mkdir()
    before = names_in(studies)
    done = fedcord("report", "low", *words, cwd=studies)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert names_in(studies) == before


def test_an_unfinished_study_is_refused(studies: Path) -> None:
    (studies / "high" / "moon" / "seed-1" / "result.json").unlink()
    done = fedcord("report", "low", "high", "--pareto", "x.svg", cwd=studies)
    assert done.returncode == 2
    assert "high is not finished (moon seed 1)" in done.stderr
    assert "--resume" in done.stderr
    assert not (studies / "x.svg").exists()


def test_without_matplotlib_the_extra_is_named(
    studies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = fedcord("report", "low", "--pareto", "x.svg", cwd=studies)
    assert done.returncode == 2
    assert 'pip install "fedcord[plots]"' in done.stderr
    assert not (studies / "x.svg").exists()
