"""Supervised contrast within a batch, and a penalty on pairs of one class that are too alike.

With similarities s_ij of directions within the batch, P_i the other examples of i's class and N_i
those of other classes:

    SCL_i = mean over chosen positives p of log(1 + Σ_{n chosen} e^{(s_in − s_ip)/τ})
    PEN_i = log(1 + Σ_{j chosen in P_i} e^{(s_ij − 1)/τ})

The authors' code chooses the least similar positive and the two most similar negatives; the paper's
form takes all positives and, in the denominator, all other examples of the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

Number = int | str
"""How many are chosen, or "all"."""

INF = float("inf")


def relaxed_contrast(
    similarity: Tensor, labels: Tensor, positives: Number, negatives: Number, temperature: float
) -> Tensor:
    """SCL_i of every example, [B]; 0 without anything to be told apart from.

    Args:
        similarity: [B, B] cosines.
        labels: [B].
        positives: the least similar so many of the same class, among them the example itself (so
            that it is used when there is no other); "all" are all others, and an example without
            one has no loss.
        negatives: the most similar so many of other classes; "all" are all other examples, as in
            the paper's denominator.
        temperature: τ.
    """
    same = labels[:, None] == labels
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    partners = same & ~itself if positives == "all" else same
    near, is_near, places = _chosen(similarity, partners, positives, largest=False)  # [B, P]
    if negatives == "all":
        # the denominator is every other example, a positive among them unless it is the anchor
        others = similarity.masked_fill(itself, -INF) / temperature
        has_others = (~itself).any(1)
        total = torch.logsumexp(torch.where(has_others[:, None], others, 0.0), 1)
        alone = F.softplus(total[:, None] - near / temperature)
        each = torch.where(itself.gather(1, places), alone, total[:, None] - near / temperature)
    else:
        far, is_far, _ = _chosen(similarity, ~same, negatives, largest=True)  # [B, N]
        has_others = is_far.any(1)
        exponents = torch.where(is_far, far / temperature, -INF)
        # a row of −∞ alone has no gradient, not even zero
        total = torch.logsumexp(torch.where(has_others[:, None], exponents, 0.0), 1)
        each = F.softplus(total[:, None] - near / temperature)
    counted = is_near & has_others[:, None]
    return torch.where(counted, each, 0.0).sum(1) / counted.sum(1).clamp(min=1)


def likeness_penalty(
    similarity: Tensor, labels: Tensor, positives: Number, threshold: float, temperature: float
) -> Tensor:
    """PEN_i of every example, [B].

    Args:
        similarity: [B, B] cosines.
        labels: [B].
        positives: the least similar so many others of the same class; one below the threshold, or
            missing, counts as −1 and has no gradient. "all": all above the threshold, no others.
        threshold: similarity above which a pair is too alike.
        temperature: τ.
    """
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    partners = (labels[:, None] == labels) & ~itself
    if positives == "all":
        exponents = torch.where(
            partners & (similarity > threshold), (similarity - 1) / temperature, -INF
        )
    else:
        near, is_near, _ = _chosen(similarity, partners, positives, largest=False)
        too_alike = is_near & (near >= threshold)
        exponents = (torch.where(too_alike, near, -1.0) - 1) / temperature
    return torch.logsumexp(F.pad(exponents, (1, 0)), 1)  # the padding is the 1 in the logarithm


def _chosen(
    similarity: Tensor, allowed: Tensor, number: Number, *, largest: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Per row the most or least similar allowed entries [B, k], which are real, and where."""
    count = len(similarity) if number == "all" else min(int(number), len(similarity))
    masked = similarity.masked_fill(~allowed, -INF if largest else INF)
    values, places = masked.topk(count, dim=1, largest=largest)
    is_real = values.isfinite()
    return torch.where(is_real, values, 0.0), is_real, places
