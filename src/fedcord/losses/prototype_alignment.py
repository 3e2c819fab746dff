"""Distance of features from the prototype of their class."""

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
