"""Chance and the largest class as lines in figures of accuracy.

A line far from all points would press them together, so from some distance on it becomes a few
words at the edge it lies beyond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fedcord.report.canvas import MUTED
from fedcord.report.constant import ConstantAnswer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACH = 1.0
"""How far beyond what is drawn an axis is extended to show a line, in spans of what is drawn."""
SMALL = 8.0
GID = "floor"
"""Marks the words in a figure, so that names can keep clear of them."""


def floor_levels(floor: ConstantAnswer | None) -> dict[str, float]:
    """Names and accuracies in percent; the largest class only where it stands out."""
    if floor is None:
        return {}
    levels = {"chance": 100 * floor.chance}
    if floor.is_unequal:
        levels["largest class"] = 100 * floor.majority
    return levels


def draw_floor(axes: Axes, floor: ConstantAnswer | None, along: Literal["x", "y"]) -> None:
    """Draw the levels on the axis that shows accuracies; call it once the data is drawn."""
    low, high = axes.get_xlim() if along == "x" else axes.get_ylim()
    reach, pad = REACH * (high - low), 0.04 * (high - low)
    ends, beyond = [low, high], []
    for name, level in floor_levels(floor).items():
        text = f"{name} {level:.1f} %"
        if low - reach <= level <= high + reach:
            draw = axes.axvline if along == "x" else axes.axhline
            draw(level, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
            _write(axes, text, level, along)
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
            gid=GID,
        )


def _arrow(along: str, *, is_below: bool) -> str:
    return ("←" if is_below else "→") if along == "x" else ("↓" if is_below else "↑")


def _write(axes: Axes, text: str, level: float, along: str) -> None:
    """The name beside its line, at the far end where curves have left it behind."""
    is_level = along == "y"
    axes.annotate(
        text,
        (1, level) if is_level else (level, 0),
        (0, 2) if is_level else (3, 2),
        xycoords=axes.get_yaxis_transform() if is_level else axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="right" if is_level else "left",
        va="bottom",
        fontsize=SMALL,
        color=MUTED,
        gid=GID,
    )
