"""Final score against the traffic of a run: the figure to choose a method by."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedcord.report.bounds import CEILING, bounds
from fedcord.report.canvas import INK, MUTED, house_style, look
from fedcord.report.floor_lines import draw_floor
from fedcord.report.frontier import Choice, Frontier, frontier, interval_ends, panel_titles
from fedcord.report.labels import Box, Label, place_labels
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.marks import FLOOR, LEGEND, MEAN, method_numbers, tag
from fedcord.report.numbers import byte_size
from fedcord.report.scores import drawn, score_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = ("o", "s", "D", "^", "v")
"""Where colours repeat, marks tell methods apart."""
MOST_COLUMNS = 3
MOST_TICKS = 6
TITLE_WIDTH = 42
"""Letters of a title that fit above a panel."""
FULL, HOLLOW = 8.0, 5.5
"""Size of a mark on the frontier and off it, in points."""
LABEL_SIZE = 9.0
LONGEST = 32
"""Letters of a name that are shown."""
UP_LEFT, DOWN_RIGHT = 0.75 * math.pi, -0.15 * math.pi
"""Where names wish to stand: nothing is up left of the frontier, or it would not be one."""
ROOM = 0.9
"""How far beyond the means an axis goes to show whole intervals, in spans of the means."""

COMPLETE = "complete traffic of a run: all clients, up and down, final model delivered"
EXCHANGED = "traffic of a whole run, all clients, up and down"


def pareto_figure(boards: Sequence[Leaderboard], titles: Sequence[str] | None = None) -> Figure:
    """One panel per board: a point per method with its interval, the frontier as a line.

    Panels of one data set share their axes. A method without traffic stands at the left edge, over
    "0 B". An interval too long for the axis ends in an arrow. Up is better: where lower scores
    are, the axis is turned.

    Args:
        boards: at least one.
        titles: one per board; by default what tells the boards apart.
    """
    titles = panel_titles(boards) if titles is None else titles
    metric = boards[0].metric
    is_complete = all(frontier(board).is_complete for board in boards)  # one axis for all panels
    fronts = [frontier(board, is_complete) for board in boards]
    names = sorted({row.name for board in boards for row in board.rows})
    is_shared = len({board.dataset for board in boards}) == 1
    with house_style():
        from matplotlib.figure import Figure

        columns = len(boards) if len(boards) <= MOST_COLUMNS else 2 if len(boards) == 4 else 3
        lines = math.ceil(len(boards) / columns)
        width, height = (6.8, 4.4) if len(boards) == 1 else (4.5, 3.9)
        fig = Figure(figsize=(width * columns, height * lines), layout="constrained")
        grid = fig.subplots(lines, columns, squeeze=False, sharex=is_shared, sharey=is_shared)
        panels = list(grid.flat)
        for axes in panels[len(boards) :]:
            axes.remove()
        groups = [fronts] * len(boards) if is_shared else [[front] for front in fronts]
        zeros: list[float] = []
        for axes, front, title, group in zip(panels, fronts, titles, groups, strict=False):
            axes.set_title(_folded(title))
            # of shared panels only the outer ones would show their ticks, also beside a gap
            axes.tick_params(labelbottom=True, labelleft=True)
            zero = _draw_scales(axes, group)
            zeros.append(zero)
            steps = _steps(front, zero, axes.get_xlim()[1])
            axes.plot(*zip(*steps, strict=True), color=MUTED, linewidth=1.3, zorder=1.5)
            for choice in front.choices:
                _draw_point(axes, choice, zero, names, len(zeros))
        for axes, board in zip(panels, boards, strict=False):
            ceiling = {row.name: drawn(row.score.mean, metric) for row in bounds(board, [CEILING])}
            draw_floor(axes, board.floor, metric, "y", ceiling)
        for axes in panels[: len(boards)]:
            if not metric.is_higher_better and not axes.yaxis_inverted():
                axes.invert_yaxis()
        fig.supxlabel(COMPLETE if is_complete else EXCHANGED, fontsize=10, color=MUTED)
        fig.supylabel(f"final test {score_heading(metric, ',')}", fontsize=10, color=MUTED)
        fig.draw_without_rendering()  # the layout must be final before names are fitted into it
        fig.set_layout_engine("none")
        for panel, (front, zero) in enumerate(zip(fronts, zeros, strict=True)):
            _write_names(panels[panel], front, zero, method_numbers(names), str(panel + 1))
    return fig


def _folded(title: str) -> str:
    """A title in lines, broken only after commas: "clients 10" stays together."""
    kept = ", ".join(part.replace(" ", "\u00a0") for part in title.split(", "))
    return textwrap.fill(kept, TITLE_WIDTH, break_long_words=False).replace("\u00a0", " ")


def _draw_scales(axes: Axes, group: Sequence[Frontier]) -> float:
    """Both axes for all points of the group; returns the place that stands for zero bytes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    offers = [choice for front in group for choice in front.choices]
    positive = [own.num_bytes for own in offers if own.num_bytes > 0] or [1.0]
    low, high = math.log10(min(positive)), math.log10(max(positive))
    has_zero = any(own.num_bytes == 0 for own in offers)
    margin = max(0.12 * (high - low), 0.18)  # so wide that at least one tick is in sight
    zero = 10 ** (low - 3 * margin)
    axes.set_xscale("log")
    axes.set_xlim((zero if has_zero else 10**low) * 10**-margin, 10 ** (high + 1.7 * margin))
    ticks = _ticks(low - margin, high + 1.7 * margin)
    if has_zero:
        is_lone = max(own.num_bytes for own in offers) == 0
        ticks = [zero] if is_lone else [zero, *(t for t in ticks if t > 10 ** (low - margin))]
        edge = 10 ** (low - 1.5 * margin)
        axes.axvline(edge, color=MUTED, linewidth=0.8, linestyle=(0, (1, 3)))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda size, _: byte_size(0 if has_zero and size == zero else size))
    )
    metric = offers[0].row.metric
    least = drawn(0.02, metric)
    means = [_height(own) for own in offers]
    ends = [end for own in offers for end in _bar(own)]
    span = max(max(means) - min(means), least)
    bottom = max(min(ends), min(means) - ROOM * span)
    top = min(max(ends), max(means) + ROOM * span)
    pad = 0.09 * max(top - bottom, least)
    axes.set_ylim(bottom - pad, top + 1.3 * pad)
    # a scale may end above 100 to make room for a name, but no share is there
    most = 100 if metric.is_share else math.inf
    places = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(bottom - pad, top + pad)
    axes.yaxis.set_major_locator(FixedLocator([place for place in places if 0 <= place <= most]))
    return zero


def _ticks(low: float, high: float) -> list[float]:
    """Round sizes between two powers of ten, as finely as six of them allow."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    for multiples in ((1, 2, 5), (1, 3)):
        fine = [
            multiple * 10.0**decade
            for decade in decades
            for multiple in multiples
            if low <= math.log10(multiple) + decade <= high
        ]
        if len(fine) <= MOST_TICKS:
            return fine
    step = math.ceil((high - low) / MOST_TICKS)
    return [10.0**decade for decade in decades if low <= decade <= high and decade % step == 0]


def _steps(front: Frontier, zero: float, right: float) -> list[tuple[float, float]]:
    """Corners of the frontier: for so many bytes, so good a score, and on to the right edge."""
    tops = [(own.num_bytes or zero, _height(own)) for own in front.best]
    corners = tops[:1]
    for x, y in tops[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return [*corners, (right, corners[-1][1])]


def _draw_point(axes: Axes, choice: Choice, zero: float, names: Sequence[str], panel: int) -> None:
    colour, turn = look(names, choice.row.name)
    number = method_numbers(names)[choice.row.name]
    x, y = choice.num_bytes or zero, _height(choice)
    weight, alpha = (1.6, 0.9) if choice.is_frontier else (1.0, 0.45)
    low, high = _bar(choice)
    if low < high:
        bars = axes.plot([x, x], [low, high], color=colour, linewidth=weight, alpha=alpha, zorder=2)
        bottom, top = axes.get_ylim()
        for end, is_cut, arrow in ((bottom, low < bottom, "v"), (top, high > top, "^")):
            if is_cut:
                bars += axes.plot(
                    [x], [end], arrow, color=colour, alpha=alpha, markersize=4, clip_on=False
                )
        for place, bar in enumerate(bars):
            tag(bar, number, "interval", f"{panel}-{place}")
    (point,) = axes.plot(
        [x],
        [y],
        MARKS[turn % len(MARKS)],
        markersize=FULL if choice.is_frontier else HOLLOW,
        color=colour,
        markerfacecolor=colour if choice.is_frontier else "none",
        alpha=1.0 if choice.is_frontier else 0.75,
        markeredgewidth=1.3,
        zorder=3,
    )
    tag(point, number, MEAN, str(panel))


def _write_names(
    axes: Axes, front: Frontier, zero: float, numbers: Mapping[str, int], panel: str
) -> None:
    """Names beside their points, moved off lines and other names, tied by a leader if far."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    unit = figure.dpi / 72
    texts, labels = [], []
    for (x, y, is_frontier), names in _by_place(front, zero).items():
        text = axes.annotate(
            "\n".join(
                name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names
            ),
            (x, y),
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=LABEL_SIZE,
            fontweight="bold" if is_frontier else "normal",
            color=INK if is_frontier else MUTED,
        )
        tag(text, numbers[names[0]], LEGEND, panel)
        box = text.get_window_extent()
        across, up = axes.transData.transform((x, y))
        radius = unit * ((FULL if is_frontier else HOLLOW) / 2 + 1)
        wish = UP_LEFT if is_frontier else DOWN_RIGHT
        labels.append(Label((float(across), float(up)), radius, (box.width, box.height), wish))
        texts.append(text)
    area = axes.get_window_extent()
    bounds = (area.x0 + unit, area.y0 + unit, area.x1, area.y1)
    words = [text.get_window_extent() for text in axes.texts if text.get_gid() == FLOOR]
    taken = [(box.x0, box.y0, box.x1, box.y1) for box in words]
    placed = place_labels(labels, [*_lines(axes, front, zero), *taken], bounds, unit)
    for text, label, place in zip(texts, labels, placed, strict=True):
        offset = [(c - p) / unit for c, p in zip(place.centre, label.point, strict=True)]
        text.set_position((offset[0], offset[1]))
        text.set_multialignment("right" if offset[0] < 0 else "left")
        if place.needs_leader:
            half = [side / 2 / unit for side in label.size]
            # to the nearest place of the text's box
            end = [o - max(-h, min(h, o)) for o, h in zip(offset, half, strict=True)]
            line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0}
            axes.annotate(
                "",
                text.xy,
                (end[0], end[1]),
                textcoords="offset points",
                arrowprops={**line, "shrinkB": label.radius / unit},
            )


def _by_place(front: Frontier, zero: float) -> dict[tuple[float, float, bool], list[str]]:
    """Names by where their point is; methods equal in both score and bytes share a label."""
    places: dict[tuple[float, float, bool], list[str]] = {}
    for choice in front.choices:
        x, y = choice.num_bytes or zero, _height(choice)
        places.setdefault((x, y, choice.is_frontier), []).append(choice.row.name)
    return places


def _lines(axes: Axes, front: Frontier, zero: float) -> list[Box]:
    """Boxes, in pixels, of all that is drawn as a line: the frontier's steps and intervals."""
    lines = list(itertools.pairwise(_steps(front, zero, axes.get_xlim()[1])))
    for choice in front.choices:
        x, (low, high) = choice.num_bytes or zero, _bar(choice)
        lines.append(((x, low), (x, high)))
    boxes: list[Box] = []
    for line in lines:
        (x0, y0), (x1, y1) = axes.transData.transform(line)
        boxes.append((min(x0, x1) - 1, min(y0, y1) - 1, max(x0, x1) + 1, max(y0, y1) + 1))
    return boxes


def _bar(choice: Choice) -> tuple[float, float]:
    """The interval as drawn."""
    low, high = interval_ends(choice.row)
    return drawn(low, choice.row.metric), drawn(high, choice.row.metric)


def _height(choice: Choice) -> float:
    return drawn(choice.row.score.mean, choice.row.metric)
