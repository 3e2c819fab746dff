"""Counts as shades: examples of each class at each client, or by class and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.report.canvas import INK, LINE, MUTED, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#0b6fae"
"""Near the palette's blue, but the same on a dark page: white numbers stand on it."""

MOST_VECTOR_CELLS = 4000
"""Above this a cell is a pixel of an image instead of a drawn rectangle, to keep files small."""


def heatmap_figure(
    counts: NDArray[np.int64],
    class_names: Sequence[str],
    title: str,
    client_names: Sequence[str] = (),
    rows_are: str = "client",
    columns_are: str = "class",
) -> Figure:
    """Clients as rows, classes as columns, shade by the logarithm of the count, sizes at the side.

    An absent class stays blank: with strongly skewed splits the pattern of gaps is the message.

    Args:
        counts: [K, C] examples per client and class.
        class_names: [C].
        title: above the picture; may be empty.
        client_names: [K]; numbers when there are none.
        rows_are: what the rows are, where they are not clients.
        columns_are: what the columns are, where they are not the classes of examples.
    """
    array = np.asarray(counts)
    if array.ndim != 2 or 0 in array.shape or array.shape[1] != len(class_names):
        raise DataError(
            f"counts of shape {list(array.shape)} and {len(class_names)} class names were given; a "
            "heat map needs counts of shape [clients, classes] and one name per class."
        )
    clients = client_names or [str(k) for k in range(len(array))]
    if len(clients) != len(array):
        raise DataError(
            f"{len(clients)} client names were given for {len(array)} clients; give one each."
        )
    with house_style():
        from matplotlib.figure import Figure

        num_clients, num_classes = array.shape
        width = float(np.clip(2.2 + 0.5 * num_classes, 5.4, 10.5))
        height = float(np.clip(1.3 + 0.27 * num_clients, 2.6, 11.0))
        fig = Figure(figsize=(width, height), layout="constrained")
        cells, sizes = fig.subplots(1, 2, sharey=True, width_ratios=[max(width - 1.6, 3.4), 1.25])
        _draw_cells(cells, array, _short(class_names), _short(clients), width)
        cells.set(xlabel=columns_are, ylabel=rows_are)
        _draw_sizes(sizes, array.sum(axis=1))
        if title:
            fig.suptitle(title, x=0.01, ha="left", fontsize=11)
    return fig


def _draw_cells(
    axes: Axes,
    counts: NDArray[np.int64],
    names: Sequence[str],
    clients: Sequence[str],
    width: float,
) -> None:
    from matplotlib.colors import to_rgb

    num_clients, num_classes = counts.shape
    shade = np.log1p(counts) / np.log1p(max(1, counts.max()))  # [K, C] in [0, 1]
    colours = np.empty((num_clients, num_classes, 4))
    colours[..., :3] = to_rgb(BLUE)
    # by opacity rather than by lightness, so that "few" is near the page's colour, light or dark
    colours[..., 3] = np.where(counts > 0, 0.10 + 0.90 * shade, 0.0)
    edges = np.arange(num_classes + 1) - 0.5, np.arange(num_clients + 1) - 0.5
    if counts.size <= MOST_VECTOR_CELLS:
        axes.pcolormesh(*edges, colours, edgecolors="none", linewidth=0)
    else:
        axes.imshow(colours, aspect="auto", interpolation="nearest")
    axes.set(xlim=(-0.5, num_classes - 0.5), ylim=(num_clients - 0.5, -0.5))
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    _draw_grid(axes, counts.shape)
    shown = _thinned(num_classes, 26)
    # a digit at this size is about 0.085 inch wide; names that would touch are turned
    room = 0.85 * max(width - 1.6, 3.4) / num_classes * (shown[1] if len(shown) > 1 else 1)
    is_long = max(len(names[c]) for c in shown) * 0.085 > room
    axes.set_xticks(
        shown,
        [names[c] for c in shown],
        rotation=40 if is_long else 0,
        ha="right" if is_long else "center",
        rotation_mode="anchor" if is_long else None,
    )
    rows = _thinned(num_clients, 36)
    axes.set_yticks(rows, [clients[k] for k in rows])
    if num_clients <= 36 and num_classes <= 20 and counts.max() < 100_000:
        size = 8 if num_classes <= 12 and counts.max() < 10_000 else 6.5
        for client, class_ in zip(*np.nonzero(counts), strict=True):
            axes.text(
                class_,
                client,
                str(counts[client, class_]),
                ha="center",
                va="center",
                fontsize=size,
                color="#ffffff" if colours[client, class_, 3] > 0.8 else INK,
            )


def _short(names: Sequence[str]) -> list[str]:
    return [name if len(name) <= 14 else name[:13] + "…" for name in names]


def _draw_grid(axes: Axes, shape: tuple[int, int]) -> None:
    if shape[0] <= 60 and shape[1] <= 60:
        axes.hlines(np.arange(shape[0] + 1) - 0.5, -0.5, shape[1] - 0.5, color=LINE, linewidth=0.5)
        axes.vlines(np.arange(shape[1] + 1) - 0.5, -0.5, shape[0] - 0.5, color=LINE, linewidth=0.5)


def _draw_sizes(axes: Axes, sizes: NDArray[np.int64]) -> None:
    axes.barh(np.arange(len(sizes)), sizes, height=0.62, color=BLUE, alpha=0.55)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(left=False, labelleft=False)
    axes.set_xticks([])
    axes.set_xlabel("examples")
    axes.set_xlim(0, max(1, int(sizes.max())) * 1.55)
    for client in _thinned(len(sizes), 36):
        axes.text(
            sizes[client] + 0.04 * max(1, int(sizes.max())),
            client,
            f"{sizes[client]:,}",
            va="center",
            fontsize=8,
            color=MUTED,
        )


def _thinned(count: int, most: int) -> list[int]:
    step = -(-count // most)
    return list(range(0, count, step))
