"""Supervised contrast: features of one class attract each other and repel all others.

Reference: Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020 (L_out).

With N rows, similarity s_ab = z_a·z_b / τ and positives Pos(a) of the same label without a itself,

    L = (τ/τ_base) · 1/N Σ_a [ log Σ_{b≠a} exp s_ab  −  1/|Pos(a)| Σ_{q∈Pos(a)} s_aq ].

The mean over positives needs no N×N mask: it is z_a · (sum of the class − z_a), so only the
denominator costs N². Rows without positives contribute nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor


def supervised_contrast(
    features: Tensor,
    labels: Tensor,
    temperature: float,
    base_temperature: float | None = None,
    bank: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The mean loss of all rows, a scalar.

    Args:
        features: [N, D] of length one.
        labels: [N] int64, not negative.
        temperature: τ.
        base_temperature: τ_base; equal to τ when not given.
        bank: more features [M, D] with labels [M]; they join denominators and positives but are
            not anchors themselves.
    """
    if bank is None and len(features) < 2:
        return features.sum() * 0.0  # nothing to compare with
    keys, key_labels = (features, labels) if bank is None else _joined(features, labels, bank)
    scaled = features / temperature
    similarity = scaled @ keys.T  # [N, N + M]
    similarity.fill_diagonal_(float("-inf"))  # b ≠ a
    sums, counts = _class_sums(keys, key_labels)
    partners = counts[labels] - 1
    to_partners = (scaled * (sums[labels] - features)).sum(1)
    loss = _mean_over_anchors(similarity, to_partners, partners)
    return loss if base_temperature is None else loss * (temperature / base_temperature)


def bank_contrast(
    features: Tensor, labels: Tensor, bank: tuple[Tensor, Tensor], temperature: float
) -> Tensor:
    """Contrast of rows with a bank alone: towards its features of their class, away from others.

    Args:
        features: [N, D] of length one.
        labels: [N] int64, not negative.
        bank: features [M, D] with labels [M].
        temperature: τ.
    """
    keys, key_labels = bank
    scaled = features / temperature
    most = int(torch.maximum(labels.max(), key_labels.max())) + 1
    sums, counts = _class_sums(keys, key_labels, most)
    to_partners = (scaled * sums[labels]).sum(1)
    return _mean_over_anchors(scaled @ keys.T, to_partners, counts[labels])


def _mean_over_anchors(similarity: Tensor, to_partners: Tensor, partners: Tensor) -> Tensor:
    """Mean over rows of log-sum-exp minus the mean similarity to the row's partners.

    Args:
        similarity: [N, M] with −∞ where a row must not see a key.
        to_partners: [N] summed similarity to partners.
        partners: [N] how many there are.
    """
    each = torch.logsumexp(similarity, 1) - to_partners / partners.clamp(min=1)
    return (each * (partners > 0)).mean()


def _class_sums(
    features: Tensor, labels: Tensor, num_classes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Sum of features [C, D] and number of rows [C] of every label."""
    size = int(labels.max()) + 1 if num_classes is None else num_classes
    sums = features.new_zeros(size, features.shape[1]).index_add(0, labels, features)
    return sums, torch.bincount(labels, minlength=size)


def _joined(features: Tensor, labels: Tensor, bank: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.cat([features, bank[0]]), torch.cat([labels, bank[1]])
