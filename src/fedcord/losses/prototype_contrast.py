"""Contrast of prototypes with each other: every class is told apart from the others."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def prototype_self_contrast(prototypes: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of P Pᵀ/τ [C, C] against the diagonal, which is not masked; a scalar.

    At P ~ N(0, 1) with D in the hundreds the diagonal wins by far and the loss is 0 with no
    gradient; it wakes up when prototypes shrink. Equal prototypes give log C.
    """
    return F.cross_entropy(
        prototypes @ prototypes.T / temperature,
        torch.arange(len(prototypes), device=prototypes.device),
    )
