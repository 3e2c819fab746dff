"""Distances to one point per class as class scores, with a margin on the right one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SMALLEST = 1e-12
"""Squared distances below this have no gradient; the root's would be infinite."""


def distances(points: Tensor, others: Tensor) -> Tensor:
    """||p_i − o_j|| as [B, C], with a finite gradient everywhere."""
    squared = (points[:, None] - others[None]).square().sum(2)
    return squared.clamp(min=SMALLEST).sqrt()


def margin_contrast(
    points: Tensor,
    labels: Tensor,
    centres: Tensor,
    margin: float,
    candidates: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of −D against the labels, where D[i, y_i] is `margin` larger than it is.

    Args:
        points: [B, D].
        labels: [B].
        centres: [C, D], one per class.
        margin: how much nearer the own centre must be to count as much as another.
        candidates: [C] bool, the classes that compete; all when not given.
    """
    apart = distances(points, centres)
    own = F.one_hot(labels, len(centres)).to(apart.dtype)
    scores = -(apart + margin * own)
    if candidates is not None:
        scores = scores.masked_fill(~candidates, -torch.inf)
    return F.cross_entropy(scores, labels)
