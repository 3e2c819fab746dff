"""Changes of several models from one start, merged into one change.

A change is a vector [N]; those of K models are rows [K, N]. All of it is in float64.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def trimmed(changes: Tensor, density: float) -> Tensor:
    """Rows [K, N] with the largest `density` of each in magnitude kept, the rest zero."""
    size = changes.shape[1]
    kept = max(1, round(density * size))
    least = changes.abs().kthvalue(size - kept + 1, dim=1, keepdim=True).values
    return torch.where(changes.abs() >= least, changes, 0.0)


def agreeing_mean(changes: Tensor, weights: Tensor) -> Tensor:
    """[N]: where rows [K, N] differ in sign, the mean of those with the sign of the weighted sum.

    Zeros do not count. Where the sum is zero, so is the mean.
    """
    weighted = weights[:, None] * changes
    elected = weighted.sum(0).sign()
    agrees = (changes.sign() == elected) & (elected != 0)
    share = torch.where(agrees, weights[:, None], 0.0).sum(0)
    total = torch.where(agrees, weighted, 0.0).sum(0)
    return total / torch.where(share > 0, share, 1.0)


def thinned(change: Tensor, drop: float, generator: Generator) -> Tensor:
    """[N] with a random share `drop` of it zero and the rest over 1 − drop: the same on average."""
    kept = torch.rand(change.shape, generator=generator, dtype=torch.float64) >= drop
    return torch.where(kept, change / (1 - drop), 0.0)
