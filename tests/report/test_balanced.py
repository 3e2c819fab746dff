"""When balanced accuracy is shown, and what it is paired with."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fedcord.report.balanced import balanced_table, is_worth_showing
from fedcord.report.build import build_report
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs

Adder = Callable[..., Path]
ACCURACY = {"common": (0.80, 0.82, 0.81), "fair": (0.75, 0.74, 0.77)}
BALANCED = {"common": (0.20, 0.21, 0.25), "fair": (0.70, 0.69, 0.73)}

FAIR = "fair (below a constant answer)"
"""In accuracy, which is what is compared; the largest class alone has more."""


def _write(
    study: Path,
    add_run: Adder,
    balanced: dict[str, Sequence[float | None]],
    counts: Sequence[int] = (160, 30, 10),
) -> Leaderboard:
    for name, accuracies in ACCURACY.items():
        for seed, accuracy in enumerate(accuracies):
            result = {"balanced_accuracy": balanced[name][seed], "test_counts": counts}
            add_run(study, name, seed, accuracy, result=result)
    return leaderboard(load_runs(study))


def test_rows_are_paired_with_the_first_of_the_leaderboard(tmp_path: Path, add_run: Adder) -> None:
    board = _write(tmp_path, add_run, dict(BALANCED))
    assert is_worth_showing(board)
    head, rows = balanced_table(board)
    assert head[3] == "minus common, points"
    assert [row[:2] for row in rows] == [["common", "22.00"], [FAIR, "70.67"]]
    gaps = 100 * (np.array(BALANCED["fair"]) - np.array(BALANCED["common"]))
    assert rows[1][3] == f"+{gaps.mean():.2f}"
    half = 4.302653 * gaps.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom
    assert rows[1][4] == f"[{gaps.mean() - half:.2f}, {gaps.mean() + half:.2f}]"


def test_it_is_not_shown_where_it_is_the_accuracy_or_was_not_measured(
    tmp_path: Path, add_run: Adder
) -> None:
    assert not is_worth_showing(_write(tmp_path / "same", add_run, dict(ACCURACY), ()))
    assert not is_worth_showing(_write(tmp_path / "even", add_run, dict(BALANCED), (9, 9, 9)))
    assert is_worth_showing(_write(tmp_path / "uncounted", add_run, dict(BALANCED), ()))
    partly: dict[str, Sequence[float | None]] = {**BALANCED, "fair": (0.7, None, 0.7)}
    board = _write(tmp_path / "older", add_run, partly)
    assert not is_worth_showing(board)
    assert ["balanced_accuracy" not in row.measured for row in board.rows] == [False, True]


@pytest.mark.usefixtures("no_matplotlib")
def test_tables_and_page_have_it(tmp_path: Path, add_run: Adder) -> None:
    board = _write(tmp_path, add_run, dict(BALANCED))
    paths = build_report(tmp_path)
    assert f"| {FAIR} | 70.67 |" in paths.markdown.read_text()
    assert "Balanced accuracy, %" in paths.html.read_text()
    with paths.csv.open() as file:
        means = {row["algorithm"]: row["balanced_accuracy_mean"] for row in csv.DictReader(file)}
    assert float(means["fair"]) == pytest.approx(np.mean(BALANCED["fair"]))
    assert board.to_json()["rows"][0]["metrics"]["balanced_accuracy"] == list(BALANCED["common"])
