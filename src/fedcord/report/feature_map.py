"""Features and prototypes on a plane: do classes lie where their prototypes point?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.report.canvas import INK, PALETTE, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Method = Literal["pca", "tsne"]

MARKS = ("o", "^", "s")
"""After six classes colours repeat with the next mark."""


def feature_map_figure(
    features: Floats,
    labels: NDArray[np.int64],
    prototypes: Floats,
    class_names: Sequence[str],
    method: Method = "pca",
    stars_are: str = "prototypes",
) -> Figure:
    """Directions of features as dots, those of prototypes as stars.

    Lengths are taken out first: prototype methods compare by cosine, and prototypes are often much
    longer than features.

    Args:
        features: [N, D].
        labels: [N] classes of the features.
        prototypes: [C, D], or [C, M, D] with several per class; those with NaN are left out.
        class_names: [C].
        method: `pca` is the plane of largest variance of the features, on which prototypes are
            dropped; `tsne` places both together so that neighbours stay neighbours.
        stars_are: what the legend calls the stars.
    """
    points, stars = np.asarray(features, dtype=np.float64), np.asarray(prototypes, dtype=np.float64)
    stars = stars[:, None] if stars.ndim == 2 else stars
    wrong_shape = points.ndim != 2 or stars.ndim != 3 or points.shape[1] != stars.shape[2]
    if wrong_shape or len(labels) != len(points) or len(stars) != len(class_names):
        raise DataError(
            f"features {list(points.shape)}, {len(labels)} labels, prototypes "
            f"{list(stars.shape)} and {len(class_names)} class names do not fit together; give "
            "[N, D], N, [C, D] or [C, M, D], and C."
        )
    drawn = np.isfinite(stars).all(axis=2)
    places, star_places = _on_plane(_directions(points), _directions(stars[drawn]), method)
    star_labels = np.nonzero(drawn)[0]
    with house_style():
        from matplotlib.figure import Figure

        fig = Figure(figsize=(6.2, 4.6), layout="constrained")
        axes = fig.subplots()
        for label, name in enumerate(class_names):
            colour = PALETTE[label % len(PALETTE)]
            mark = MARKS[label // len(PALETTE) % len(MARKS)]
            own = np.asarray(labels) == label
            x, y = places[own].T
            axes.scatter(x, y, s=12, c=colour, marker=mark, alpha=0.55, linewidths=0)
            x, y = star_places[star_labels == label].T
            axes.scatter(x, y, s=120, c=colour, marker="*", edgecolors=INK, linewidths=0.6)
            axes.plot([], [], mark, color=colour, markersize=5, label=name)
        axes.plot([], [], "*", color="none", markeredgecolor=INK, markersize=9, label=stars_are)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        fig.legend(loc="outside right upper", handletextpad=0.2)
    return fig


def principal_plane(rows: Floats) -> tuple[Floats, Floats]:
    """Mean [D] and two orthonormal directions [2, D] of largest variance, the first the larger.

    Signs are fixed so that the entry of largest size is positive.
    """
    middle = rows.mean(axis=0)
    _, _, directions = np.linalg.svd(rows - middle, full_matrices=False)
    axes = np.zeros((2, rows.shape[1]))
    axes[: min(2, len(directions))] = directions[:2]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return middle, axes * np.where(largest < 0, -1.0, 1.0)


def _directions(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


def _on_plane(points: Floats, stars: Floats, method: Method) -> tuple[Floats, Floats]:
    if method == "pca":
        middle, axes = principal_plane(points)
        return (points - middle) @ axes.T, (stars - middle) @ axes.T
    from sklearn.manifold import TSNE

    together = np.concatenate([points, stars])
    neighbours = min(30.0, max(1.0, (len(together) - 1) / 3))
    tsne = TSNE(perplexity=neighbours, init="pca", random_state=0)
    placed = tsne.fit_transform(together)
    return placed[: len(points)], placed[len(points) :]
