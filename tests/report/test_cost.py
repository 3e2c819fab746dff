"""Complete costs in reports, and methods that are not above a constant answer."""

import csv
import io
from pathlib import Path
from typing import Any

from fedcord.report.cost import Cost, compute_sentence, mean_cost
from fedcord.report.figures import Panels
from fedcord.report.html import render_page
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.report.overview import overview
from fedcord.report.tables import to_csv, to_markdown
from tests.report.conftest import write_run


def spent(forward: int, backward: int, delivery: int = 500) -> dict[str, Any]:
    traffic = {"up": 1000, "down": 2000, "first_weights": 300, "delivery": delivery}
    most = {"most_forward": forward // 2, "most_backward": backward // 2}
    work = {"forward": forward, "backward": backward, "cpu_seconds": 1.5, **most}
    return {"complete_traffic": traffic, "work": work}


def study(folder: Path, scores: dict[str, float], **costs: dict[str, Any]) -> Leaderboard:
    for name, score in scores.items():
        for seed in (0, 1):
            write_run(folder, name, seed, score + seed / 100, result=costs.get(name, {}))
    return leaderboard(load_runs(folder))


def test_costs_are_in_every_output(tmp_path: Path) -> None:
    costs = {"moon": spent(1000, 900), "fedavg": spent(1900, 450), "fedprox": spent(100, 50)}
    board = study(tmp_path, {"moon": 0.8, "fedavg": 0.7, "fedprox": 0.6}, **costs)
    moon = board.rows[0].cost
    assert (moon.bytes, moon.delivery, moon.compute, moon.most) == (3000, 500, 2800, 1400)
    (line, *_) = csv.DictReader(io.StringIO(to_csv(board)))
    assert float(line["complete_bytes"]) == 3000
    assert float(line["backward_passes"]) == 900
    assert line["below_constant_answer"] == "0"
    assert board.to_json()["rows"][0]["cost"]["cpu_seconds"] == 1.5
    said = "Compute within 5% of that of moon: fedavg; fedprox 0.071 times as much."
    row = "moon | 3 kB | 500 B | 1,000 | 900 | 2,800 | 1,400 | 1.5 s"
    assert said in to_markdown(board)
    assert row in to_markdown(board)
    page = render_page(board, Panels())
    assert "Complete costs" in page
    assert said in page


def test_what_was_not_counted_is_not_said(tmp_path: Path) -> None:
    board = study(tmp_path, {"moon": 0.8, "fedavg": 0.7})
    assert not board.rows[0].cost.is_known
    assert "Complete costs" not in to_markdown(board) + render_page(board, Panels())
    assert mean_cost([Cost(bytes=3.0), Cost()]) == Cost()
    assert compute_sentence([("moon", Cost(bytes=3.0)), ("fedavg", Cost())]) == ""


def test_methods_below_a_constant_answer_are_marked(tmp_path: Path) -> None:
    """Three test classes of equal size: a constant answer has a third."""
    boards = [
        study(tmp_path / "a", {"moon": 0.8, "weak": 0.31}, moon=spent(10, 10), weak=spent(8, 8)),
        study(tmp_path / "b", {"moon": 0.6, "weak": 0.5}, moon=spent(30, 10), weak=spent(8, 8)),
    ]
    assert boards[0].marks == ("weak below a constant answer",)
    assert boards[1].marks == ()
    assert boards[0].to_json()["rows"][1]["below_constant_answer"] is True
    found = overview(boards, ("a", "b"))
    text = found.to_markdown()
    assert "| algorithm | a | b | mean | mean without ‡ | mean rank |" in text
    assert "| 41.0 | 50.5 | 2.0 |" in text
    assert text.count("‡") == 3  # the heading, one score, and what it means
    assert "| moon | 3 kB | 500 B | 20 | 10 | 40 | 20 |" in text
