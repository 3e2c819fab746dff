"""Chance, the largest class and other levels as lines in figures of scores.

A line far from all points would press them together, so from some distance on it becomes a few
words at the edge it lies beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from fedcord.metrics.registry import DEFAULT, Metric
from fedcord.report.canvas import MUTED
from fedcord.report.constant import ConstantAnswer
from fedcord.report.marks import FLOOR
from fedcord.report.scores import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACH = 1.0
"""How far beyond what is drawn an axis is extended to show a line, in spans of what is drawn."""
SMALL = 8.0


def floor_levels(floor: ConstantAnswer | None, metric: Metric) -> dict[str, float]:
    """Names and levels as drawn; the largest class only for accuracies where it stands out."""
    chance = None if floor is None else floor.chance_of(metric)
    if floor is None or chance is None:
        return {}
    levels = {"chance": drawn(chance, metric)}
    if floor.is_unequal and metric.name == DEFAULT:
        levels["largest class"] = drawn(floor.majority, metric)
    return levels


def draw_floor(
    axes: Axes,
    floor: ConstantAnswer | None,
    metric: Metric,
    along: Literal["x", "y"],
    more: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draw the levels on the axis that shows scores; call it once the data is drawn.

    Args:
        axes: where.
        floor: what a model that has learnt nothing reaches.
        metric: what is shown.
        along: the axis.
        more: other levels by name, as drawn.
    """
    low, high = axes.get_xlim() if along == "x" else axes.get_ylim()
    reach, pad = REACH * (high - low), 0.04 * (high - low)
    ends, beyond = [low, high], []
    levels = {**floor_levels(floor, metric), **more}
    unit = " %" if metric.is_share else ""
    for name, level in levels.items():
        text = f"{name} {level:.{1 if metric.is_share else 3}f}{unit}"
        if low - reach <= level <= high + reach:
            draw = axes.axvline if along == "x" else axes.axhline
            draw(level, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
            _write(axes, text, level, along, is_lower=len(levels) > 1 and name == "chance")
            ends += [level - pad, level + pad]
        else:
            beyond.append(f"{text} {_arrow(along, is_below=level < low)}")
    (axes.set_xlim if along == "x" else axes.set_ylim)(min(ends), max(ends))
    if beyond:
        axes.text(
            0.005 if along == "x" else 0.995,
            0.01,
            ", ".join(beyond),
            transform=axes.transAxes,
            ha="left" if along == "x" else "right",
            va="bottom",
            fontsize=SMALL,
            color=MUTED,
            gid=FLOOR,
        )


def _arrow(along: str, *, is_below: bool) -> str:
    return ("←" if is_below else "→") if along == "x" else ("↓" if is_below else "↑")


def _write(axes: Axes, text: str, level: float, along: str, *, is_lower: bool) -> None:
    """The name beside its line; the lower of two on the outer side, so that they never meet."""
    if along == "x":  # above the axes, where nothing is drawn
        place, shift, across = (level, 1.0), (-2 if is_lower else 2, 1), "xaxis"
    else:
        place, shift, across = (1.0, level), (0, -2 if is_lower else 2), "yaxis"
    axes.annotate(
        text,
        place,
        shift,
        xycoords=getattr(axes, f"get_{across}_transform")(),
        textcoords="offset points",
        ha="right" if along == "y" or is_lower else "left",
        va="top" if along == "y" and is_lower else "bottom",
        fontsize=SMALL,
        color=MUTED,
        gid=FLOOR,
    )
