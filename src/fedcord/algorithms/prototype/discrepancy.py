"""Weights of clients by how much they hold and how little their classes differ from the rest.

With n_k examples and a discrepancy δ_k >= 0 a client weighs max(0, n_k/N − A δ_k + B), N = Σ n_k,
or with raw numbers max(0, n_k − A δ_k + B).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def aware_weights(
    sizes: Tensor,
    discrepancy: Tensor,
    strength: float,
    offset: float,
    raw: bool,
    owners: Tensor | None = None,
) -> Tensor:
    """Weights >= 0, not normalised; `sizes` where all would be 0.

    They are N times the fraction form, so that strength and offset 0 give `sizes`, bit for bit.

    Args:
        sizes: [K] float64, the clients' numbers of examples, all positive.
        discrepancy: [K] float64.
        strength: A.
        offset: B.
        raw: whether n_k stands in place of n_k/N.
        owners: [K] bool, the clients that are weighed; N counts all. All when not given.
    """
    scale = 1.0 if raw else sizes.sum()
    weights = (sizes - scale * (strength * discrepancy - offset)).relu()
    if owners is not None:
        weights, sizes = weights[owners], sizes[owners]
    return weights if bool(weights.any()) else sizes


def label_discrepancy(counts: Tensor) -> Tensor:
    """||D_k − 1/C||_2 of each client's class distribution, from counts [K, C], as [K] float64."""
    shares = counts.double() / counts.sum(1, keepdim=True)
    away: Tensor = torch.linalg.vector_norm(shares - 1 / counts.shape[1], dim=1)
    return away


def knowledge_discrepancy(before: Tensor, after: Tensor) -> Tensor:
    """KL(softmax(before) || softmax(after)) / D over the last dimension, as float64.

    Args:
        before: [..., D].
        after: [..., D].
    """
    old, new = before.double().log_softmax(-1), after.double().log_softmax(-1)
    return F.kl_div(new, old.expand_as(new), reduction="none", log_target=True).mean(-1)
