"""Curves over rounds as CSV, so that they can be drawn when run folders are gone."""

from __future__ import annotations

import csv
import io

from fedcord.report.course import course
from fedcord.report.leaderboard import Leaderboard

COSTS = ("complete_bytes_mean", "compute_mean")


def curves_csv(board: Leaderboard) -> str | None:
    """One line for every evaluation of every seed, unrounded, with what it had cost by then.

    Costs are means over seeds, as `--overtaking` has them. None where nothing was evaluated more
    than once.
    """
    courses = {row.name: course(row) for row in board.rows}
    if all(len(own.rounds) < 2 for own in courses.values()):
        return None
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("algorithm", "round", "seed", board.metric.name, *COSTS))
    for name, own in courses.items():
        evaluations = zip(own.rounds, own.values, own.complete, own.compute, strict=True)
        for round_, values, num_bytes, compute in evaluations:
            for seed, value in sorted(values.items()):
                writer.writerow((name, round_, seed, value, num_bytes, compute))
    return text.getvalue()
