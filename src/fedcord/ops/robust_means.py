"""Middles of points that a few wrong ones cannot drag away, and how far each holds.

Points are rows of a float64 matrix [n, P], each a client's whole model. In float64 and in the order
given, so that results do not depend on the engine.

References: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
ICML 2018 (median, trimmed mean); Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated
Learning", IEEE Transactions on Signal Processing 2022 (geometric median); Blanchard et al.,
"Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", NeurIPS 2017 (Krum).
"""

from __future__ import annotations

import torch
from torch import Tensor

WEISZFELD_STEPS = 1000
WEISZFELD_TOLERANCE = 1e-10
"""Of a step's length relative to the points' median distance from the middle: then it has ended."""


def coordinate_median(points: Tensor) -> Tensor:
    """The median of every coordinate [P]; of an even number the mean of the middle two."""
    ordered, count = points.sort(dim=0).values, len(points)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def trimmed_mean(points: Tensor, trimmed: int) -> Tensor:
    """The mean [P] of every coordinate without its `trimmed` smallest and largest values."""
    ordered = points.sort(dim=0).values
    return ordered[trimmed : len(points) - trimmed].mean(dim=0)


def geometric_median(points: Tensor) -> Tensor:
    """The point [P] with the least sum of distances to all, by Weiszfeld's iteration.

    Distances below a millionth of the typical one count as that, which keeps the iteration from
    dividing by zero where the answer is one of the points.
    """
    middle = coordinate_median(points)
    typical = torch.linalg.vector_norm(points - middle, dim=1).median()
    if typical == 0:
        return middle  # more than half of the points are this one
    for _ in range(WEISZFELD_STEPS):
        distances = torch.linalg.vector_norm(points - middle, dim=1).clamp(min=1e-6 * typical)
        weights = 1 / distances
        following = (weights[:, None] * points).sum(0) / weights.sum()
        moved = torch.linalg.vector_norm(following - middle)
        middle = following
        if moved <= WEISZFELD_TOLERANCE * typical:
            break
    return middle


def krum_order(points: Tensor, bad: int) -> Tensor:
    """Rows [n] from the best to the worst: the sums of squared distances to their nearest others.

    Args:
        points: [n, P].
        bad: f, how many may be wrong; each point is compared with its n − f − 2 nearest others.
    """
    distances = squared_distances(points)
    nearest = distances.sort(dim=1).values[:, 1 : len(points) - bad - 1]  # the first is itself
    return nearest.sum(1).argsort(stable=True)


def squared_distances(points: Tensor) -> Tensor:
    """[n, n], from differences: products would lose close points far from the origin."""
    return torch.stack([((points - point) ** 2).sum(1) for point in points])


def shortened(changes: Tensor, bound: float) -> Tensor:
    """Rows [n, P] no longer than `bound`, in their directions."""
    lengths = torch.linalg.vector_norm(changes, dim=1, keepdim=True)
    kept: Tensor = bound / lengths.clamp(min=bound)
    return changes * kept
