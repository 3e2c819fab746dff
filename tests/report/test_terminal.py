import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from fedcord.report.terminal import print_leaderboard

StudyWriter = Callable[..., Path]


def printed(study: Path, width: int) -> str:
    stream = io.StringIO()
    print_leaderboard(leaderboard(load_runs(study)), Console(file=stream, width=width))
    return stream.getvalue()


VALUES = {
    "fedavg": [0.80, 0.82, 0.78, 0.81, 0.79],
    "fedprox": [0.82, 0.83, 0.80, 0.84, 0.80],
    "a-method-with-a-rather-long-name": [0.70, 0.75, 0.71, 0.74, 0.69],
}


@pytest.mark.parametrize("width", [80, 120])
def test_every_number_is_whole_at_usual_widths(write_study: StudyWriter, width: int) -> None:
    text = printed(write_study(VALUES), width)
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())
    for number in ("81.80", "[79.47, 83.92]", "−1.80", "[−2.84, −0.76]", "0.009", "12 kB", "2.0 s"):
        assert number in text
    assert "never a maximum" in " ".join(text.split())


def test_an_interval_stands_beside_its_number_when_there_is_room(write_study: StudyWriter) -> None:
    study = write_study(VALUES)
    assert "81.80  [79.47, 83.92]" in printed(study, 120)
    assert "81.80  [79.47, 83.92]" not in printed(study, 80)


def test_one_seed_says_that_there_is_no_interval(write_study: StudyWriter) -> None:
    text = printed(write_study({"fedavg": [0.5], "moon": [0.4]}), 80)
    assert text.count("n = 1, no interval") == 3
    assert "nan" not in text.lower().replace("finance", "")


def test_names_are_not_markup(write_study: StudyWriter) -> None:
    assert "fed[bold]x" in printed(write_study({"fed[bold]x": [0.5, 0.6]}), 80)


def test_what_was_left_out_is_said(write_study: StudyWriter, add_run: StudyWriter) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    add_run(study, "fedavg", 2, 0.7, is_finished=False)
    assert "fedavg, seed 2, is unfinished" in printed(study, 120)


def test_failures_are_in_the_table_with_their_reason(
    write_study: StudyWriter, add_run: StudyWriter
) -> None:
    study = write_study({"fedavg": [0.5, 0.6]})
    for name, seed in (("moon", 0), ("moon", 1), ("fedprox", 1)):
        folder = add_run(study, name, seed, 0.5, is_finished=False)
        failure = {"algorithm": name, "seed": seed, "error": "E", "message": "loss is NaN"}
        (folder / "failure.json").write_text(json.dumps(failure))
    add_run(study, "fedprox", 0, 0.9)
    text = " ".join(printed(study, 100).split())
    assert "failed on every seed" in text
    assert "failed on 1 of 2 seeds" in text
    assert "note fedprox: 1 of 2 seeds; seed 1 failed: loss is NaN." in text
    assert "note moon: 0 of 2 seeds; seeds 0 and 1 failed: loss is NaN." in text
    assert text.index("note ") > text.index("never a maximum")


def test_what_runs_noted_is_one_line_with_a_count(write_study: StudyWriter) -> None:
    noted = {"notes": ["client 3 is empty.", "one class is rare."]}
    text = " ".join(printed(write_study(VALUES, result=noted), 120).split())
    assert text.count("note ") == 1
    assert "note 30 notes of 15 runs, of 2 kinds, such as 3 methods × 5 seeds: client 3" in text
