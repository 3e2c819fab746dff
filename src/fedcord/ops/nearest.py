"""Nearest points: the class of the nearest prototype, and how near classes are to each other."""

from __future__ import annotations

import torch
from torch import Tensor


def nearest_scores(features: Tensor, prototypes: Tensor, held: Tensor) -> Tensor:
    """Minus the mean squared distance of features [B, D] to each prototype [C, D], as [B, C].

    Classes without a prototype (`held` [C] is false) score below every other, by a finite number.
    """
    distance = squared_distances(features, prototypes) / features.shape[1]
    lowest = -distance.masked_fill(~held, 0).amax(dim=1, keepdim=True) - 1
    return torch.where(held, -distance, lowest)


def squared_distances(points: Tensor, others: Tensor) -> Tensor:
    """||p_i − o_j||² as [B, C], summed directly: the expanded square can fall below zero."""
    exact = "donot_use_mm_for_euclid_dist"  # and would depend on the rest of the batch
    return torch.cdist(points, others, compute_mode=exact).square()


def nearest_gaps(centres: Tensor) -> Tensor:
    """The distance of each of [C, D] points to its nearest other one, [C]; inf for one alone."""
    return squared_distances(centres, centres).fill_diagonal_(torch.inf).amin(dim=1).sqrt()
