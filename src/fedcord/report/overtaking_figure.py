"""Curves of methods with rounds beside a finished one, over complete traffic and over compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcord.report.bounds import bounds, without
from fedcord.report.canvas import INK, MUTED, house_style
from fedcord.report.floor_lines import draw_floor
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import byte_size
from fedcord.report.overtaking import OvertakingTable
from fedcord.report.plots import (
    curve,
    curve_look,
    draw_bounds,
    draw_curve,
    draw_legend,
    row_number,
)
from fedcord.report.scores import drawn, score_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {
    "complete": "complete traffic so far, all clients, up and down",
    "compute": "client compute so far: passes forward + 2 × backward",
}
SMALL = 9.0


def overtaking_figure(board: Leaderboard, table: OvertakingTable) -> Figure:
    """Two panels, one for each kind of cost, with a ring where a curve passes the finished method.

    Its level goes on as a line from where it is finished: that is what the others must pass.

    Args:
        board: the methods.
        table: of the same board, from `overtaking`.
    """
    with house_style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        fig = Figure(figsize=(10.4, 4.6), layout="constrained")
        panels = fig.subplots(1, 2, sharey=True)
        for axes, (kind, label) in zip(panels, KINDS.items(), strict=True):
            axes.set_xscale("log")
            for row in without(board, bounds(board)):
                own = curve(row) if row.name != table.against else curve(row).at_end
                x = getattr(own.course, kind)
                if x and min(x) > 0:  # what costs nothing has no place on this axis
                    look = curve_look(board, row)
                    draw_curve(axes, x, own, row.name, row_number(board, row), *look)
            _draw_level(axes, board, table, kind)
            _draw_crossings(axes, board, table, kind)
            axes.set_xlabel(label)
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(
                FuncFormatter(lambda size, _: byte_size(size))
                if kind == "complete"
                else FuncFormatter(lambda passes, _: _passes(passes))
            )
            draw_bounds(axes, board, "y")
            draw_floor(axes, board.floor, board.metric, "y")
        panels[0].set_ylabel(f"test {score_heading(board.metric, ',')}")
        draw_legend(fig, panels[0], [row.name for row in board.rows], most_columns=5)
    return fig


def _draw_level(axes: Axes, board: Leaderboard, table: OvertakingTable, kind: str) -> None:
    (row,) = (row for row in board.rows if row.name == table.against)
    start = table.num_bytes if kind == "complete" else table.compute
    level = drawn(row.score.mean, row.metric)
    right = axes.get_xlim()[1]
    colour, _ = curve_look(board, row)
    axes.plot([start, right], [level, level], color=colour, linewidth=1.0, zorder=1.4)
    axes.set_xlim(right=right)


def _draw_crossings(axes: Axes, board: Leaderboard, table: OvertakingTable, kind: str) -> None:
    rows = {row.name: row for row in board.rows}
    passed = [own for own in table.rows if own.first is not None]
    for turn, own in enumerate(passed):
        assert own.first is not None
        line = curve(rows[own.name])
        place = line.course.rounds.index(own.first)
        x, y = getattr(line.course, kind)[place], line.mean[place]
        axes.plot([x], [y], "o", color=INK, markerfacecolor="none", markersize=10, zorder=4)
        axes.annotate(
            f"round {own.first}",
            (x, y),
            (-8, 8) if turn % 2 == 0 else (8, -16),  # two that are close leave room to each other
            textcoords="offset points",
            ha="right" if turn % 2 == 0 else "left",
            fontsize=SMALL,
            color=MUTED,
        )


def _passes(count: float) -> str:
    """A number of passes as short as a tick has room for."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count:g}"
