"""Whatever a comparison is about: its order, its words, its tables and its figures."""

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.metrics.registry import METRICS
from fedcord.report.against import against
from fedcord.report.build import build_report
from fedcord.report.classes import class_table, confusion
from fedcord.report.frontier import frontier
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_run, load_runs
from fedcord.report.overview import overview
from fedcord.report.plots import curve, has_curves
from fedcord.report.tables import to_csv, to_markdown
from fedcord.report.verdict import verdict
from tests.report.conftest import shown

Adder = Callable[..., Path]
ACCURACY = {"common": (0.90, 0.91, 0.92), "fair": (0.85, 0.87, 0.86)}
LOSS = {"common": (0.52, 0.50, 0.51), "fair": (0.40, 0.41, 0.42)}
BALANCED = {"common": (0.40, 0.42, 0.41), "fair": (0.70, 0.71, 0.73)}
CLASSES = ("cat", "dog", "eel")
MATRIX = [[80, 5, 15], [0, 10, 0], [3, 0, 7]]


def _entry(label: int) -> dict[str, Any]:
    counts = np.array(MATRIX)
    right = int(counts[label, label])
    return {
        "name": CLASSES[label],
        "examples": int(counts[label].sum()),
        "answers": int(counts[:, label].sum()),
        "precision": right / int(counts[:, label].sum()),
        "recall": right / int(counts[label].sum()),
        "f1": 0.5,
    }


def _write(
    root: Path,
    add_run: Adder,
    asked: str | None = None,
    test_counts: Sequence[int] = (100, 10, 10),
    extra: Mapping[str, Any] | None = None,
) -> None:
    for name, accuracies in ACCURACY.items():
        for seed, accuracy in enumerate(accuracies):
            metrics = {
                "accuracy": accuracy,
                "balanced_accuracy": BALANCED[name][seed],
                "macro_f1": 0.5 + seed / 100,
                "auroc": 0.75,
                "log_loss": LOSS[name][seed],
            }
            result = {
                "metric": asked,
                "metrics": metrics,
                "metric_errors": {"auroc": 0.0002},
                "balanced_accuracy": metrics["balanced_accuracy"],
                "classes": [_entry(label) for label in range(3)],
                "confusion_matrix": MATRIX,
                "test_counts": list(test_counts),
                **(extra or {}),
            }
            add_run(root, name, seed, accuracy, result=result)


def _board(root: Path, metric: str | None = None) -> Leaderboard:
    return leaderboard(load_runs(root), metric)


def test_what_is_compared_decides_who_is_first(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    firsts = {
        name: _board(tmp_path, name).best.name
        for name in ("accuracy", "balanced_accuracy", "log_loss")
    }
    assert firsts == {"accuracy": "common", "balanced_accuracy": "fair", "log_loss": "fair"}
    board = _board(tmp_path, "log_loss")
    assert board.best.values == LOSS["fair"]
    assert board.rows[1].difference is not None
    assert board.rows[1].difference.mean == pytest.approx(0.10)
    assert board.to_json()["metric"] == "log_loss"
    assert board.to_json()["higher_is_better"] is False


def test_the_verdict_names_what_it_is_about(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    said = verdict(_board(tmp_path, "balanced_accuracy"))
    assert said.startswith("fair is ahead of common by 30.3 points of balanced accuracy [")
    said = verdict(_board(tmp_path, "log_loss"))
    assert said.startswith("fair is ahead of common by 0.100 in log-loss [0.")
    alone = [run for run in load_runs(tmp_path) if run.name == "fair"]
    assert "fair reaches 0.410 [" in verdict(leaderboard(alone, "log_loss"))
    assert "test log-loss on 3 seeds" in verdict(leaderboard(alone, "log_loss"))


def test_runs_say_what_they_were_asked_about(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run, asked="balanced_accuracy")
    assert _board(tmp_path).metric.name == "balanced_accuracy"
    assert _board(tmp_path, "accuracy").metric.name == "accuracy"
    result = tmp_path / "fair" / "seed-0" / "result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | {"metric": "auroc"}))
    assert _board(tmp_path).metric.name == "accuracy"


def test_runs_that_lack_the_metric_are_named(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    add_run(tmp_path, "older", 0, 0.5)
    add_run(tmp_path, "older", 1, 0.5)
    add_run(tmp_path, "older", 2, 0.5)
    with pytest.raises(CheckpointError, match=r"not in .*older/seed-0.*Run it again with --metric"):
        _board(tmp_path, "auroc")
    assert _board(tmp_path, "worst_client").best.name == "common"
    with pytest.raises(ConfigError, match="unknown metric 'aurok'; did you mean 'auroc'"):
        _board(tmp_path, "aurok")


def test_tables_have_the_metric_and_all_others(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    board = _board(tmp_path, "log_loss")
    rows = list(csv.DictReader(to_csv(board).splitlines()))
    assert [row["algorithm"] for row in rows] == ["fair", "common"]
    assert float(rows[0]["log_loss_mean"]) == pytest.approx(0.41)
    assert float(rows[0]["accuracy_mean"]) == pytest.approx(0.86)
    text = to_markdown(board)
    assert "| algorithm | seeds | log-loss | 95 % interval |" in text
    assert "| fair | 3 | 0.4100 |" in text
    assert "+0.1000" in text
    assert "at most 0.02 points from their exact values" in text
    assert "Lower is better" in text


def test_classes_of_the_best_and_what_they_are_taken_for(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    board = _board(tmp_path)
    head, rows = class_table(board)
    assert head[:4] == ["class", "test examples", "precision %", "recall %"]
    assert rows[0][:2] == ["cat", "100"]
    assert [row[-1] for row in rows] == ["eel (15.0 %)", "–", "cat (30.0 %)"]
    counts = confusion(board)
    assert counts is not None
    assert counts.tolist() == (3 * np.array(MATRIX)).tolist()


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("confusion_matrix", [[1, 2], [3, 4]]),
        ("confusion_matrix", [[1, 2, -1]] * 3),
        ("confusion_matrix", [[1, 2], [3]]),
        ("classes", ["cat"]),
        ("classes", [{"name": "cat", "examples": 1, "recall": 2}]),
        ("metrics", {"auroc": 1.5}),
        ("metrics", {"log_loss": "low"}),
        ("client_metrics", {"accuracy": {"mean": 0.5}}),
    ],
)
def test_damaged_entries_are_named(
    tmp_path: Path, add_run: Adder, entry: str, value: object
) -> None:
    _write(tmp_path, add_run, extra={entry: value})
    with pytest.raises(CheckpointError, match=r"result\.json"):
        load_run(tmp_path / "fair" / "seed-0")


def test_accuracy_that_hides_unequal_classes_is_warned_of(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    text = to_markdown(_board(tmp_path))
    assert "by balanced accuracy fair is first; compare by it with --metric" in text
    assert "Accuracy hides" not in to_markdown(_board(tmp_path, "balanced_accuracy"))


def test_other_tables_know_which_way_is_better(tmp_path: Path, add_run: Adder) -> None:
    for study in ("one", "two"):
        _write(tmp_path / study, add_run)
    boards = [_board(tmp_path / study, "log_loss") for study in ("one", "two")]
    assert [own.finding for own in against(boards[0], "common").others] == ["better"]
    found = overview(boards, ["one", "two"])
    assert [row.name for row in found.rows] == ["fair", "common"]
    assert "| fair | **0.410**" in found.to_markdown()
    assert [own.row.name for own in frontier(boards[0]).best] == ["fair"]


def test_curves_are_of_what_rounds_measured(tmp_path: Path, add_run: Adder) -> None:
    _write(tmp_path, add_run)
    assert has_curves(_board(tmp_path))
    assert curve(_board(tmp_path, "log_loss").best).mean == (1.0, 1.0, 1.0, 1.0)
    assert not has_curves(_board(tmp_path, "auroc"))


@pytest.mark.parametrize("metric", ["log_loss", "auroc"])
def test_the_page_is_about_it(tmp_path: Path, add_run: Adder, metric: str) -> None:
    _write(tmp_path, add_run)
    paths = build_report(tmp_path, metric=metric)
    whole = paths.html.read_text()
    page = shown(whole)
    words = METRICS[metric].words
    assert f"final-{metric}.svg" in {path.name for path in paths.plots}
    assert "confusion.svg" in {path.name for path in paths.plots}
    assert "<h2>Classes</h2>" in page
    assert f"{words} was measured of the final model only".lower() in page.lower() or (
        f"Test {words} after each evaluated round" in page
    )
    assert "accuracy, %" not in page.split("<table>")[1]
    assert 'data-key="final-balanced_accuracy"' in whole


def test_every_metric_has_its_figures_on_the_page_and_no_id_comes_twice(
    tmp_path: Path, add_run: Adder
) -> None:
    _write(tmp_path, add_run)
    page = build_report(tmp_path).html.read_text()
    keys = re.findall(r'data-figure="(\w+)" data-key="([\w-]+)"', page)
    found = {kind: [key for own, key in keys if own == kind] for kind, _ in keys}
    others = ["balanced_accuracy", "macro_f1", "auroc", "log_loss"]
    others += ["client_accuracy", "worst_client", "client_deviation"]
    assert found["final"] == ["final", *(f"final-{name}" for name in others)]
    assert found["rounds"] == ["rounds", "rounds-log_loss"]  # what rounds measured
    assert page.count("was measured of the final model only") == 6
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert re.findall(r'data-key="([^"]+)"', shown(page)) == [
        "final",
        "rounds",
        "traffic",
        "clients",
    ]
