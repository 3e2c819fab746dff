"""How strongly each client aligned, round by round, for methods whose clients decide that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcord.report.canvas import PALETTE, house_style, logarithmic
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import CLIENT, method_numbers, tag
from fedcord.report.row import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS = 6
"""More methods side by side could not be read."""


def aligning_rows(board: Leaderboard) -> list[Row]:
    """Rows whose clients reported a λ, by name, at most `MOST_PANELS`."""
    rows = [row for row in board.rows if any(e.lambda_raw for run in row.runs for e in run.metrics)]
    return sorted(rows, key=lambda row: row.name)[:MOST_PANELS]


def alignment_figure(board: Leaderboard) -> Figure | None:
    """λ of every client of every seed on one logarithmic scale, a panel for each method.

    None when no client reported a λ at more than one round.
    """
    rows = aligning_rows(board)
    if not any(len(run.metrics) > 1 for row in rows for run in row.runs):
        return None
    numbers = method_numbers(row.name for row in board.rows)
    with house_style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=(1.2 + 2.9 * len(rows), 3.2), layout="constrained")
        panels = fig.subplots(1, len(rows), sharey=True, squeeze=False)[0]
        for axes, row in zip(panels, rows, strict=True):
            for run in row.runs:
                for client in sorted({k for entry in run.metrics for k in entry.lambda_raw}):
                    points = [
                        (entry.round, entry.lambda_raw[client])
                        for entry in run.metrics
                        if client in entry.lambda_raw
                    ]
                    (line,) = axes.plot(
                        *zip(*points, strict=True),
                        color=PALETTE[client % len(PALETTE)],
                        alpha=0.8,
                        linewidth=1.1,
                    )
                    tag(line, numbers[row.name], CLIENT, f"{client}-{run.seed}")
            logarithmic(axes)
            axes.set_title(row.name)
            axes.set_xlabel("checkpoint")
        panels[0].set_ylabel("λ of each client")
    return fig
