"""Scores while training, against rounds and against traffic, and where every seed ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedcord.report.bounds import bounds, without
from fedcord.report.canvas import DASHES, POINTS, house_style, look
from fedcord.report.course import Course, course
from fedcord.report.floor_lines import draw_floor
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import LEGEND, LINE, MEAN, SEEDS, method_numbers, tag
from fedcord.report.numbers import byte_size
from fedcord.report.row import Row
from fedcord.report.scores import drawn, score_heading, score_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Against = Literal["rounds", "bytes"]


@dataclass(frozen=True)
class Curve:
    """Mean score at the rounds in which every seed measured it.

    Attributes:
        course: rounds and costs [T].
        mean: [T] as drawn, shares in percent.
        low: [T] lower end of the 95 % interval; the mean itself where there is none.
        high: [T].
    """

    course: Course
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def at_end(self) -> Curve:
        """Its last point alone."""
        own = self.course
        last = Course(
            own.rounds[-1:],
            own.exchanged[-1:],
            own.complete[-1:],
            own.compute[-1:],
            own.values[-1:],
        )
        return Curve(last, self.mean[-1:], self.low[-1:], self.high[-1:])


def curve(row: Row) -> Curve:
    """The curve of one algorithm; empty when its seeds share no round that measured it."""
    own, metric = course(row), row.metric
    intervals = [score_interval(list(values.values()), metric) for values in own.values]
    return Curve(
        own,
        tuple(drawn(i.mean, metric) for i in intervals),
        tuple(drawn(i.mean if i.low is None else i.low, metric) for i in intervals),
        tuple(drawn(i.mean if i.high is None else i.high, metric) for i in intervals),
    )


def has_curves(board: Leaderboard) -> bool:
    """Whether rounds measured what is compared."""
    return any(course(row).rounds for row in board.rows)


def score_figure(board: Leaderboard, against: Against) -> Figure:
    """Mean score with its interval band, against rounds or against cumulative traffic."""
    with house_style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

        fig = Figure(figsize=(5.4, 3.7), layout="constrained")
        axes = fig.subplots()
        places: list[float] = []
        for row in without(board, bounds(board)):
            own = curve(row)
            x = own.course.rounds if against == "rounds" else own.course.exchanged
            places += x
            if x:
                draw_curve(axes, x, own, row.name, row_number(board, row), *curve_look(board, row))
        if against == "rounds":
            axes.set_xlabel("round")
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
        else:
            axes.set_xlabel("traffic so far, all clients, up and down")
            positive = [place for place in places if place > 0]
            if positive and len(positive) == len(places) and max(places) > 60 * min(places):
                axes.set_xscale("log")
                axes.xaxis.set_minor_formatter(NullFormatter())
            else:
                axes.xaxis.set_major_locator(MaxNLocator(5))
                axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: byte_size(size)))
        axes.set_ylabel(f"test {score_heading(board.metric, ',')}")
        if places:
            draw_bounds(axes, board, "y")
            draw_floor(axes, board.floor, board.metric, "y")
            draw_legend(fig, axes, [row.name for row in board.rows])
        else:
            axes.text(0.5, 0.5, "no round was evaluated", transform=axes.transAxes, ha="center")
    return fig


def final_figure(board: Leaderboard) -> Figure:
    """Final scores: every seed as a ring, the mean as a dot with its interval."""
    metric = board.metric
    with house_style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=(5.4, 0.8 + 0.44 * len(board.rows)), layout="constrained")
        axes = fig.subplots()
        for place, row in enumerate(board.rows):
            colour, _ = curve_look(board, row)
            number = row_number(board, row)
            values = [drawn(value, metric) for value in row.values]
            rings = axes.scatter(
                values,
                [place + 0.2] * len(values),
                s=24,
                facecolors="none",
                edgecolors=colour,
                linewidths=1.1,
            )
            tag(rings, number, SEEDS)
            interval = row.score
            if interval.low is not None and interval.high is not None:
                ends = [drawn(interval.low, metric), drawn(interval.high, metric)]
                (bar,) = axes.plot(ends, [place - 0.1] * 2, color=colour, linewidth=2.2)
                tag(bar, number, "interval")
            mean = drawn(interval.mean, metric)
            (dot,) = axes.plot([mean], [place - 0.1], "o", color=colour, markersize=6.5)
            tag(dot, number, MEAN)
        axes.set_yticks(range(len(board.rows)), [_two_lines(row) for row in board.rows])
        for row, text in zip(board.rows, axes.get_yticklabels(), strict=True):
            tag(text, row_number(board, row), LEGEND)
        axes.set_ylim(len(board.rows) - 0.3, -0.6)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"final test {score_heading(metric, ',')}")
        draw_bounds(axes, board, "x")
        draw_floor(axes, board.floor, metric, "x")
    return fig


def draw_bounds(axes: Axes, board: Leaderboard, along: Literal["x", "y"]) -> None:
    """What others lie between, as lines across the figure."""
    draw = axes.axvline if along == "x" else axes.axhline
    for row in bounds(board):
        colour, _ = curve_look(board, row)
        level = drawn(row.score.mean, row.metric)
        line = draw(
            level, color=colour, linewidth=1.3, linestyle=(0, (6, 2)), zorder=1.2, label=row.name
        )
        tag(line, row_number(board, row), "bound")


def _two_lines(row: Row) -> str:
    return f"{row.name}\n({row.mark})" if row.mark else row.name


def draw_curve(
    axes: Axes,
    x: Sequence[float],
    own: Curve,
    name: str,
    number: int,
    colour: str,
    turn: int,
) -> None:
    """A line with its band of intervals; of a method that was evaluated once a point."""
    if len(x) == 1:
        error = [[own.mean[0] - own.low[0]], [own.high[0] - own.mean[0]]]
        point, _, bars = axes.errorbar(
            x,
            own.mean,
            yerr=error,
            fmt=POINTS[turn % len(POINTS)],
            color=colour,
            markersize=6,
            label=name,
        )
        tag(point, number, LINE)
        for place, bar in enumerate(bars):
            tag(bar, number, "interval", str(place))
        return
    band = axes.fill_between(x, own.low, own.high, color=colour, alpha=0.14, linewidth=0)
    tag(band, number, "interval")
    dash = DASHES[turn % len(DASHES)]
    (line,) = axes.plot(x, own.mean, color=colour, linestyle=dash, label=name)
    tag(line, number, LINE)
    (end,) = axes.plot(x[-1:], own.mean[-1:], "o", color=colour, markersize=5)
    tag(end, number, "end")


def draw_legend(fig: Figure, axes: Axes, names: Sequence[str], most_columns: int = 3) -> None:
    """Names by rank, line by line; matplotlib by itself fills columns."""
    by_name = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    shown = [name for name in names if name in by_name]
    num_columns = min(most_columns, len(shown))
    order = [name for column in range(num_columns) for name in shown[column::num_columns]]
    legend = fig.legend(
        [by_name[name] for name in order],
        order,
        loc="outside upper left",
        ncols=num_columns,
        handlelength=1.6,
        columnspacing=1.4,
    )
    numbers = method_numbers(names)
    for name, text, sample in zip(order, legend.get_texts(), legend.legend_handles, strict=True):
        tag(text, numbers[name], LEGEND, "name")
        if sample is not None:
            tag(sample, numbers[name], LEGEND, "sample")


def row_number(board: Leaderboard, row: Row) -> int:
    """By which a page knows the row in all its figures."""
    return method_numbers(other.name for other in board.rows)[row.name]


def curve_look(board: Leaderboard, row: Row) -> tuple[str, int]:
    """Colour of a row's curve, and how many others have had it before."""
    return look([other.name for other in board.rows], row.name)
