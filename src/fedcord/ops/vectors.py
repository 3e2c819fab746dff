"""Vectors: their directions, and the distances between them."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-12
"""Vectors shorter than this have no direction."""


def unit(vectors: Tensor) -> Tensor:
    """[..., D] vectors scaled to length one; those of length zero stay zero, without a gradient.

    Dividing by a clamped length would be the same forwards, but backwards it multiplies what comes
    in by 1e12 where a network's ReLU left nothing.
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    has_direction = length > SMALLEST
    return torch.where(has_direction, vectors / length.clamp(min=SMALLEST), 0.0)


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
