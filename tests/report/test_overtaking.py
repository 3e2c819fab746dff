"""Where curves of methods with rounds pass a finished one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedcord.report.kept_curves import COSTS
from fedcord.report.kept_page import keep_page
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_runs
from tests.cli.command import fedcord
from tests.report.conftest import assert_refused, write_run

CURVES: dict[str, list[list[float]]] = {
    "once": [[0.60], [0.70]],
    "climbs": [[0.30, 0.58, 0.72, 0.80], [0.20, 0.75, 0.69, 0.78]],  # means .25 .665 .705 .79
    "falls": [[0.50, 0.66, 0.30, 0.40], [0.50, 0.69, 0.30, 0.40]],
    "never": [[0.30, 0.40, 0.50, 0.60], [0.30, 0.40, 0.50, 0.60]],
}
PASSES = [[10, 5], [20, 10]]
"""Forward and backward of two clients in every round: 60 by weight."""


def costs(rounds: int) -> dict[str, Any]:
    """Complete: 3,000 a round are exchanged, 300 were first weights, 500 deliver the model."""
    first, delivery, own_models = 300, 500, 4
    traffic = {"up": 1000 * rounds, "down": 2000 * rounds - first + delivery}
    work = {"forward": 30 * rounds + own_models, "backward": 15 * rounds, "cpu_seconds": 1.0}
    most = {"most_forward": 20 * rounds, "most_backward": 10 * rounds}
    traffic |= {"first_weights": first, "delivery": delivery}
    return {"complete_traffic": traffic, "work": work | most}


def write_curves(
    study: Path, curves: Mapping[str, Sequence[Sequence[float]]] = CURVES, *, counted: bool = True
) -> Path:
    for name, seeds in curves.items():
        for seed, values in enumerate(seeds):
            result = costs(len(values)) if counted else {}
            run = write_run(study, name, seed, values[-1], rounds=len(values), result=result)
            path = run / "metrics.jsonl"
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line, value in zip(lines, values, strict=True):
                line |= {"accuracy": value, "took": dict(enumerate(PASSES))}
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return study


def found(folder: Path, *words: str) -> dict[str, Any]:
    done = fedcord("report", *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_first_evaluation_above_with_its_costs(tmp_path: Path) -> None:
    write_curves(tmp_path / "study")
    table = found(tmp_path, "study", "--overtaking", "over.md", "--against", "once")
    assert (table["num_bytes"], table["compute"]) == (3200, 64)
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == ["climbs", "never", "falls"]  # as they end
    assert rows["climbs"]["first"] == 2  # 0.665 against 0.65, in the mean
    assert rows["climbs"]["by_seed"] == [3, 2]
    assert rows["climbs"]["stays"] is True
    assert (rows["climbs"]["num_bytes"], rows["climbs"]["compute"]) == (6200, 124)
    assert rows["falls"]["first"] == 2
    assert rows["falls"]["by_seed"] == [2, None]
    assert rows["falls"]["stays"] is False
    assert rows["never"]["first"] is rows["never"]["num_bytes"] is None
    text = (tmp_path / "over.md").read_text(encoding="utf-8")
    assert "| climbs | 79.00 | 2 rounds | 3, 2 | 6.2 kB | 1.9 | 124 | 1.9 | yes |" in text
    assert "| never | 60.00 | not in 4 rounds | –, – | – | – | – | – | – |" in text


def test_curves_are_kept_with_their_costs(tmp_path: Path) -> None:
    board = leaderboard(load_runs(write_curves(tmp_path / "study")))
    keep_page(tmp_path, "page", "# page\n", {"part": board}, ["part"])
    kept = (tmp_path / "page" / "part-curves.csv").read_text(encoding="utf-8")
    lines = [line.split(",") for line in kept.splitlines()]
    assert lines[0] == [*("algorithm", "round", "seed", "accuracy"), *COSTS]
    assert len(lines) == 1 + sum(len(values) for seeds in CURVES.values() for values in seeds)
    by_place = {",".join(line[:3]): [float(cell) for cell in line[3:]] for line in lines[1:]}
    assert by_place["climbs,2,1"] == [0.75, 6200, 124]  # as the table has them
    assert by_place["once,1,0"] == [0.60, 3200, 64]


def test_scores_by_seed_are_kept_of_what_was_evaluated_once(tmp_path: Path) -> None:
    study = write_curves(tmp_path / "study", {"once": [[0.6], [0.8]], "other": [[0.7], [0.5]]})
    keep_page(tmp_path, "page", "# page\n", {"part": leaderboard(load_runs(study))}, ["part"])
    kept = (tmp_path / "page" / "part-curves.csv").read_text(encoding="utf-8")
    places = [line.rsplit(",", 2)[0] for line in kept.splitlines()[1:]]
    assert set(places) == {"once,1,0,0.6", "once,1,1,0.8", "other,1,0,0.7", "other,1,1,0.5"}


def test_costs_that_were_not_counted_are_kept_as_empty(tmp_path: Path) -> None:
    board = leaderboard(load_runs(write_curves(tmp_path / "old", counted=False)))
    keep_page(tmp_path, "page", "# page\n", {"part": board}, ["part"])
    kept = (tmp_path / "page" / "part-curves.csv").read_text(encoding="utf-8")
    assert all(line.endswith(",,") for line in kept.splitlines()[1:])


def test_lower_is_better_turns_the_question(tmp_path: Path) -> None:
    for name, losses in {"once": [0.5], "learns": [0.9, 0.6, 0.4]}.items():
        for seed in range(2):
            result = {**costs(len(losses)), "metrics": {"log_loss": losses[-1]}}
            run = write_run(tmp_path / "s", name, seed, 0.5, rounds=len(losses), result=result)
            path = run / "metrics.jsonl"
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line, loss in zip(lines, losses, strict=True):
                line["loss"] = loss
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("s", "--overtaking", "over.md", "--against", "once", "--metric", "log_loss")
    (row,) = found(tmp_path, *words)["rows"]
    assert row["first"] == 3


def test_a_figure_has_both_costs_and_a_ring_where_curves_cross(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_curves(tmp_path / "study")
    table = found(tmp_path, "study", "--overtaking", "over.svg", "--against", "once")
    assert table["figure"] == "over.svg"
    drawing = (tmp_path / "over.svg").read_text(encoding="utf-8")
    assert drawing.count("round 2") == 4  # two methods in two panels
    assert "complete traffic so far" in drawing
    assert "client compute so far" in drawing


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    write_curves(tmp_path / "study")
    write_curves(tmp_path / "old", counted=False)
    write_curves(tmp_path / "points", {"once": [[0.6]], "other": [[0.7]]})
    over = ("--overtaking", "over.md")
    against = ("--against", "once")
    assert_refused(("study", *over), "name it: --against NAME", tmp_path)
    assert_refused(("study", *over, "--against", "moon"), "allowed: climbs", tmp_path)
    assert_refused(("study", "old", *over, *against), "name one folder", tmp_path)
    assert_refused(("study", "--overtaking", "over.txt", *against), ".md, .png, .svg", tmp_path)
    assert_refused(("study", *over, "--pooled", "p.md", *against), "ask for one", tmp_path)
    assert_refused(("old", *over, *against), "were not counted", tmp_path)
    assert_refused(("points", *over, *against), "--evaluate-every", tmp_path)


@pytest.mark.parametrize("passes", [[1], [1, -1], [1.5, 1], "many", [True, 1]])
def test_passes_that_are_none_name_their_file(passes: object, tmp_path: Path) -> None:
    run = write_curves(tmp_path / "study") / "climbs" / "seed-0" / "metrics.jsonl"
    lines = [json.loads(line) for line in run.read_text().splitlines()]
    lines[0]["took"] = {"0": passes}
    run.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("study", "--overtaking", "over.md", "--against", "once")
    assert_refused(words, "metrics.jsonl has an unusable 'took'", tmp_path)
