"""k-means for a few dozen short vectors, with the number of groups chosen by silhouette."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

RESTARTS = 20
STEPS = 100
WORTH_SPLITTING = 0.1
"""A best silhouette below it means there is one group."""


def choose_groups(points: Tensor, most: int, seed: int) -> Tensor:
    """The group [K] int64 of every point [K, D], numbered in order of first appearance.

    Args:
        points: at least one.
        most: largest number of groups to try.
        seed: of the random starts.
    """
    best, found = WORTH_SPLITTING, torch.zeros(len(points), dtype=torch.int64)
    for count in range(2, min(most, len(points) - 1) + 1):
        groups = kmeans(points, count, seed)
        score = silhouette(points, groups)
        if score > best:
            best, found = score, groups
    return found


def kmeans(points: Tensor, count: int, seed: int) -> Tensor:
    """The best of several k-means++ runs: the group [K] of every point [K, D]."""
    generator = np.random.Generator(np.random.Philox(seed))
    best, found = float("inf"), torch.zeros(len(points), dtype=torch.int64)
    for _ in range(RESTARTS):
        centres = _spread_start(points, count, generator)
        groups = torch.cdist(points, centres).argmin(1)
        for _ in range(STEPS):
            centres = torch.stack(
                [
                    points[groups == g].mean(0) if bool((groups == g).any()) else centres[g]
                    for g in range(count)
                ]
            )
            new = torch.cdist(points, centres).argmin(1)
            if torch.equal(new, groups):
                break
            groups = new
        error = float(((points - centres[groups]) ** 2).sum())
        if error < best - 1e-12:
            best, found = error, groups
    return _renumbered(found)


def silhouette(points: Tensor, groups: Tensor) -> float:
    """Mean over points of (b − a) / max(a, b): a within the own group, b to the nearest other."""
    distance = torch.cdist(points, points)
    names = groups.unique().tolist()
    if len(names) < 2:
        return 0.0
    values = []
    for place in range(len(points)):
        own = groups == groups[place]
        if int(own.sum()) == 1:
            values.append(0.0)
            continue
        a = float(distance[place][own].sum()) / (int(own.sum()) - 1)
        others = [g for g in names if g != int(groups[place])]
        b = min(float(distance[place][groups == g].mean()) for g in others)
        values.append((b - a) / max(a, b, 1e-300))
    return sum(values) / len(values)


def _spread_start(points: Tensor, count: int, generator: np.random.Generator) -> Tensor:
    """k-means++: each next centre is far from those chosen, with chance by squared distance."""
    chosen = [int(generator.integers(len(points)))]
    while len(chosen) < count:
        square = torch.cdist(points, points[chosen]).min(1).values ** 2
        total = float(square.sum())
        share = (square / total).numpy() if total > 0 else None
        share = None if share is None else share / share.sum()
        chosen.append(int(generator.choice(len(points), p=share)))
    return points[chosen]


def _renumbered(groups: Tensor) -> Tensor:
    order: dict[int, int] = {}
    return torch.tensor([order.setdefault(g, len(order)) for g in groups.tolist()])
