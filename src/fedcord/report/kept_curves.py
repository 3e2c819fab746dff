"""Scores of every seed as CSV, so that runs can be paired and drawn when their folders are gone."""

from __future__ import annotations

import csv
import io

from fedcord.report.course import course
from fedcord.report.leaderboard import Leaderboard

COSTS = ("complete_bytes_mean", "compute_mean")


def curves_csv(board: Leaderboard) -> str:
    """One line for every evaluation of every seed, unrounded, with what it had cost by then.

    Costs are means over seeds, as `--overtaking` has them; empty where they were not counted.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("algorithm", "round", "seed", board.metric.name, *COSTS))
    for row in board.rows:
        own = course(row)
        evaluations = zip(own.rounds, own.values, own.complete, own.compute, strict=True)
        for round_, values, num_bytes, compute in evaluations:
            costs = (
                None if row.cost.bytes is None else num_bytes,
                None if row.cost.compute is None else compute,
            )
            for seed, value in sorted(values.items()):
                writer.writerow((row.name, round_, seed, value, *costs))
    return text.getvalue()
