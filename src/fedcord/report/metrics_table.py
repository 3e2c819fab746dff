"""Every metric beside the one that is compared."""

from __future__ import annotations

from fedcord.metrics.registry import METRICS
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.scores import score, score_heading

TITLE = "All metrics"


def other_metrics(board: Leaderboard) -> list[str]:
    """Names of those that every method has, in one order everywhere."""
    return [name for name in METRICS if all(name in row.measured for row in board.rows)]


def has_more(board: Leaderboard) -> bool:
    """Whether there is more to show than older runs measured."""
    return "macro_f1" in other_metrics(board)


def metrics_table(board: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of means over seeds, in the order of the leaderboard."""
    metrics = [METRICS[name] for name in other_metrics(board)]
    rows = [
        [row.label, *(score(row.mean_of(metric.name), metric) for metric in metrics)]
        for row in board.rows
    ]
    return ["algorithm", *map(score_heading, metrics)], rows


def metrics_sentence(board: Leaderboard) -> str:
    """What to know about the table, with how exact its numbers are."""
    errors = [
        error
        for row in board.rows
        for run in row.runs
        if run.result is not None
        for error in run.result.measured.errors.values()
    ]
    text = (
        f"Means over seeds. Runs were to be compared by {board.metric.words}; a gap in another "
        "column may be chance, the more so the more columns are read."
    )
    if errors:
        text += (
            " AUROC and average precision are from histograms of scores, at most "
            f"{100 * max(errors):.2g} points from their exact values."
        )
    return text
