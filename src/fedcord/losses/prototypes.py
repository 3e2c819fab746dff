"""Prototypes as targets of features, and against each other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def prototype_alignment(
    features: Tensor, labels: Tensor, prototypes: Tensor, held: Tensor
) -> Tensor:
    """Mean over all B·D elements of (z_i − P[y_i])², a scalar.

    An example whose class has no prototype counts in the mean and adds nothing. The prototypes are
    constants: no gradient reaches them.

    Args:
        features: [B, D].
        labels: [B].
        prototypes: [C, D].
        held: [C] bool, the classes that have a prototype.
    """
    target = torch.where(held[labels][:, None], prototypes[labels].detach(), features.detach())
    return F.mse_loss(features, target)


def prototype_self_contrast(prototypes: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of P Pᵀ/τ [C, C] against the diagonal, which is not masked; a scalar.

    At P ~ N(0, 1) with D in the hundreds the diagonal wins by far and the loss is 0 with no
    gradient; it wakes up when prototypes shrink. Equal prototypes give log C.
    """
    return F.cross_entropy(
        prototypes @ prototypes.T / temperature,
        torch.arange(len(prototypes), device=prototypes.device),
    )
