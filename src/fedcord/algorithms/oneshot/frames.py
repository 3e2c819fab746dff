"""Sets of unit vectors, one per class, that lie as far apart as possible."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

SPREADING_STEPS = 300
"""Descent steps of `low_coherence_frame`."""


def random_frame(num_classes: int, feature_dim: int, generator: Generator) -> Tensor:
    """[C, D] rows of length one in random directions."""
    return F.normalize(torch.randn(num_classes, feature_dim, generator=generator), dim=1)


def simplex_frame(num_classes: int, feature_dim: int, generator: Generator) -> Tensor:
    """[C, D] simplex equiangular tight frame: unit rows, every two with cosine −1/(C−1).

    √(C/(C−1)) V Qᵀ with V [C, C−1] an orthonormal basis of all vectors whose entries sum to zero
    (Helmert's) and Q [D, C−1] a random rotation. Needs 2 ≤ C ≤ D+1.
    """
    assert 2 <= num_classes <= feature_dim + 1
    rotation = _orthonormal(feature_dim, num_classes - 1, generator)
    scale = math.sqrt(num_classes / (num_classes - 1))
    return (scale * _sum_free_basis(num_classes) @ rotation.T).float()


def low_coherence_frame(num_classes: int, feature_dim: int, generator: Generator) -> Tensor:
    """[C, D] unit rows spread by descent on their largest cosines, for C > D+1.

    No arrangement has a largest cosine below `welch_bound`.
    """
    rows = random_frame(num_classes, feature_dim, generator).double()
    hidden = torch.eye(num_classes, dtype=torch.bool)
    for step in range(SPREADING_STEPS):
        sharpness = 4.0 * 32.0 ** (step / SPREADING_STEPS)  # from all neighbours to the nearest
        cosines = (rows @ rows.T).masked_fill(hidden, float("-inf"))
        force = torch.softmax(sharpness * cosines, 1)
        away = (force + force.T) @ rows
        away -= (away * rows).sum(1, keepdim=True) * rows  # along the sphere
        rows = F.normalize(rows - 2.0 / sharpness * away, dim=1)
    return rows.float()


def welch_bound(num_classes: int, feature_dim: int) -> float:
    """The least possible largest |cosine| of C > D unit vectors in D dimensions."""
    excess = num_classes - feature_dim
    return math.sqrt(max(excess, 0) / (feature_dim * (num_classes - 1)))


def _sum_free_basis(size: int) -> Tensor:
    """[size, size−1] orthonormal columns, each summing to zero: k ones, then −k."""
    columns = torch.arange(1, size, dtype=torch.float64)
    rows = torch.arange(size)[:, None]
    basis: Tensor = torch.where(rows < columns, 1.0, torch.where(rows == columns, -columns, 0.0))
    return basis / torch.sqrt(columns * (columns + 1))


def _orthonormal(rows: int, columns: int, generator: Generator) -> Tensor:
    """[rows, columns] float64 with orthonormal columns, evenly distributed."""
    gaussian = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    signs = torch.where(r.diagonal() < 0, -1.0, 1.0)  # else the factorisation is not unique
    frame: Tensor = q * signs
    return frame
