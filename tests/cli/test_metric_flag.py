"""`--metric`: what runs measure, what comparisons are about, and names that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import fedcord, result_of

SMALL = ["--clients", "2", "--subset", "200", "--out", "out"]


def test_a_run_is_about_its_metric(tmp_path: Path) -> None:
    done = fedcord("run", "afl", *SMALL, "--metric", "macro_f1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "macro" in done.stdout.lower()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["metric"] == "macro_f1"
    assert 0 <= result["metrics"]["macro_f1"] <= 1


def test_a_comparison_and_its_report(tmp_path: Path) -> None:
    words = ["compare", "afl", "fedhip", *SMALL, "--seeds", "2", "--metric", "balanced_accuracy"]
    assert result_of(*words, cwd=tmp_path)["metric"] == "balanced_accuracy"
    again = result_of("report", "out", cwd=tmp_path)
    assert again["metric"] == "balanced_accuracy"  # what its runs were asked about
    other = result_of("report", "out", "--metric", "macro_f1", cwd=tmp_path)
    assert other["metric"] == "macro_f1"


def test_a_flag_wins_over_the_study(tmp_path: Path) -> None:
    text = 'algorithms = ["afl", "fedhip"]\nseeds = 2\nmetric = "balanced_accuracy"\n'
    (tmp_path / "study.toml").write_text(text)
    assert result_of("compare", "study.toml", *SMALL, cwd=tmp_path)["metric"] == "balanced_accuracy"
    more = [*SMALL[:-1], "other", "--metric", "macro_f1"]
    assert result_of("compare", "study.toml", *more, cwd=tmp_path)["metric"] == "macro_f1"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "afl", "--metric", "acuracy"],
        ["compare", "afl", "fedhip", "--metric", "acuracy"],
        ["compare", "study.toml", "--metric", "acuracy"],
        ["compare", "wrong.toml"],
        ["report", ".", "--metric", "acuracy"],
    ],
)
def test_a_name_that_is_none_is_told_before_anything_is_written(
    tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "study.toml").write_text('algorithms = ["afl", "fedhip"]\n')
    (tmp_path / "wrong.toml").write_text('algorithms = ["afl"]\nmetric = "acuracy"\n')
    before = sorted(tmp_path.rglob("*"))
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown metric 'acuracy'; did you mean 'accuracy'" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before
