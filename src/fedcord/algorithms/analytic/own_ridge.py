"""Ridge regression on one client's samples, its strength chosen by exact leave-one-out."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.ops.anchored import AnchoredPath

GRID = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0)
"""Ridges that leave-one-out tries, relative to the mean eigenvalue of the client's Gram matrix."""


def own_ridge(
    features: Tensor, targets: Tensor, labels: Tensor, ridge: float | str
) -> tuple[float, Tensor]:
    """(λ, W [D, C]) of argmin ||F W − T||² + λ||W||².

    Args:
        features: [N, D] F, at least one row.
        targets: [N, C] T, what is fitted: one-hot labels, or what another model left of them.
        labels: [N, C] one-hot, what mistakes are counted on.
        ridge: λ > 0, or `loo`.
    """
    size = features.shape[1]
    start = torch.zeros(size, targets.shape[1], dtype=torch.float64)
    path = AnchoredPath.of(features, targets, start, torch.eye(size, dtype=torch.float64))
    if not isinstance(ridge, str):
        return ridge, path.model(1 / ridge)
    mean = float(path.square.sum()) / size
    strength, weight = path.choose([1 / (mean * step) for step in GRID], labels, contains_own=False)
    return 1 / strength, weight
