"""Directions of vectors."""

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
