"""Which part of a figure belongs to which method, and what its points say.

A picture on a page can hide a method or tell the value under the pointer only if it knows what is
what. So whoever draws tags its artists, and `told_points` reads places and values back from the
finished figure: nothing is computed twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAG = re.compile(r"method-(\d+)-([a-z]+)-?(.*)")

LEGEND = "legend"
"""A name that stays in sight, dimmed, while its method is hidden."""
LINE, MEAN, SEEDS, CLIENT = "line", "mean", "seeds", "client"
"""Parts whose points have values to tell."""
FLOOR = "floor"
"""Words about levels that everybody shares, from which names keep clear."""
TELLING = (LINE, MEAN, SEEDS, CLIENT)

MOST_POINTS = 200
"""Of a longer curve every n-th point is told: more could not be pointed at."""


@dataclass(frozen=True)
class Spot:
    """One point of a tagged artist.

    Attributes:
        method: its number; see `method_numbers`.
        part: what of the method it is.
        detail: what the artist's tag says beyond the part.
        place: its place among the artist's points.
        x: as drawn.
        y: as drawn.
    """

    method: int
    part: str
    detail: str
    place: int
    x: float
    y: float


Says = Callable[[Spot], str]
"""What a page tells of a point."""


def method_numbers(names: Iterable[str]) -> dict[str, int]:
    """By name, the number under which a page knows a method: by alphabet, like its colour."""
    return {name: number for number, name in enumerate(sorted(set(names)))}


def tag(artist: Artist, method: int, part: str, detail: str = "") -> None:
    """Note whose artist it is; the part with its detail must be unique in the figure."""
    artist.set_gid(f"method-{method}-{part}" + (f"-{detail}" if detail else ""))


def tagged_svg(text: str) -> str:
    """SVG in which tags are attributes instead of ids, which may not come twice."""
    text = text.replace(f'id="{FLOOR}"', f'data-part="{FLOOR}"')
    return re.sub(
        r'id="method-(\d+)-([a-z]+)[^"]*"',
        lambda found: f'data-method="{found[1]}" data-part="{found[2]}"',
        text,
    )


def told_points(fig: Figure, says: Says) -> list[list[Any]]:
    """[method, x, y, words] of every point that has something to tell, in the units of the SVG.

    Call it after the figure was saved: saving decides where axes lie.
    """
    found = []
    for axes in fig.axes:
        for spot in _spots(axes):
            x, y = _on_page(fig, axes, spot.x, spot.y)
            found.append([spot.method, x, y, says(spot)])
    return found


def grid_values(
    fig: Figure, counts: Sequence[Sequence[int]], names: Sequence[Sequence[str]], kinds: list[str]
) -> dict[str, Any]:
    """The cells of a heat map: where they lie, what rows and columns are, and the counts."""
    axes = fig.axes[0]
    left, top = _on_page(fig, axes, -0.5, -0.5)
    right, bottom = _on_page(fig, axes, len(names[1]) - 0.5, len(names[0]) - 0.5)
    return {
        "box": [left, top, right, bottom],
        "rows": list(names[0]),
        "columns": list(names[1]),
        "kinds": kinds,
        "counts": [list(row) for row in counts],
    }


def _spots(axes: Axes) -> Iterator[Spot]:
    for artist in axes.get_children():
        found = TAG.fullmatch(artist.get_gid() or "")
        if found is None or found[2] not in TELLING:
            continue
        places = list(enumerate(_places(artist)))
        step = -(-len(places) // MOST_POINTS)
        for place, (x, y) in places[::-step][::-1]:  # the last one always: it is the result
            yield Spot(int(found[1]), found[2], found[3], place, float(x), float(y))


def _places(artist: Artist) -> Any:
    """[N, 2] in the units of the axes."""
    from matplotlib.lines import Line2D

    if isinstance(artist, Line2D):
        return artist.get_xydata()
    return artist.get_offsets()  # type: ignore[attr-defined] # the only other kind that is tagged


def _on_page(fig: Figure, axes: Axes, x: float, y: float) -> tuple[float, float]:
    """A place in the SVG's own units, which are points from the upper left corner."""
    across, up = fig.transFigure.inverted().transform(axes.transData.transform((x, y)))
    width, height = fig.get_size_inches() * 72
    return round(float(across * width), 1), round(float((1 - up) * height), 1)
