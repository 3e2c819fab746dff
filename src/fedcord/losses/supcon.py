"""Supervised contrast: features of one class attract each other and repel all others.

Reference: Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020 (L_out).

With N rows, similarity s_ab = z_a·z_b / τ and positives Pos(a) of the same label without a itself,

    L = (τ/τ_base) · 1/N Σ_a [ log Σ_{b≠a} exp s_ab  −  1/|Pos(a)| Σ_{q∈Pos(a)} s_aq ].

Rows without positives contribute nothing. Two things make it cheap. The mean over positives needs
no N×N mask: it is z_a · (sum of the class − z_a), so only the denominator costs N². And the
gradient is known: with p_ab the softmax of s_ab over b, a row's weight w_a (1/N, or 0 without
positives) and S the sum of its class,

    τ · ∂L/∂z_i = Σ_b (w_i p_ib + w_b p_bi) z_b  −  2 w_i/|Pos(i)| · (S − z_i),

one product of a symmetric matrix instead of a graph of twenty small steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Bank = tuple[Tensor, Tensor]
"""Features [M, D] of length one with their labels [M] int64; constants."""


def supervised_contrast(
    features: Tensor,
    labels: Tensor,
    temperature: float,
    base_temperature: float | None = None,
    bank: Bank | None = None,
) -> Tensor:
    """The mean loss of all rows, a scalar.

    Args:
        features: [N, D] of length one.
        labels: [N] int64, not negative.
        temperature: τ.
        base_temperature: τ_base; equal to τ when not given.
        bank: more features with labels; they join denominators and positives but are not anchors.
    """
    scale = 1.0 if base_temperature is None else temperature / base_temperature
    loss: Tensor = _Contrast.apply(features, labels, temperature, scale, bank, True)  # type: ignore[no-untyped-call]
    return loss


def bank_contrast(features: Tensor, labels: Tensor, bank: Bank, temperature: float) -> Tensor:
    """Contrast of rows with a bank alone: towards its features of their class, away from others.

    Args:
        features: [N, D] of length one.
        labels: [N] int64, not negative.
        bank: features [M, D] with labels [M].
        temperature: τ.
    """
    loss: Tensor = _Contrast.apply(features, labels, temperature, 1.0, bank, False)  # type: ignore[no-untyped-call]
    return loss


class _Contrast(torch.autograd.Function):
    """The loss with its gradient, both from one pass over the similarities."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        labels: Tensor,
        temperature: float,
        scale: float,
        bank: Bank | None,
        among_rows: bool,
    ) -> Tensor:
        keys, key_labels = (z, labels) if bank is None else bank
        if bank is not None and among_rows:
            keys, key_labels = torch.cat([z, keys]), torch.cat([labels, key_labels])
        similarity = (z / temperature) @ keys.T  # [N, keys]
        if among_rows:
            similarity.fill_diagonal_(float("-inf"))  # b ≠ a
        attract, partners = _partners(z, labels, keys, key_labels, among_rows)
        has_partners = partners > 0
        weight = has_partners / (len(z) * partners.clamp(min=1))  # [N], w_a / |Pos(a)|
        normaliser = torch.logsumexp(similarity, 1)
        if not bool(has_partners.all()):  # a row that sees nothing has log 0
            normaliser = torch.where(has_partners, normaliser, 0.0)
            similarity = similarity.where(has_partners[:, None], float("-inf"))
        pulled = (z * attract).sum(1) / temperature
        loss = (has_partners * normaliser).sum() / len(z) - (weight * pulled).sum()
        share = (similarity - normaliser[:, None]).exp_().div_(len(z))  # w_a p_ab
        if not among_rows:
            gradient = share @ keys - weight[:, None] * attract
        elif bank is None:
            gradient = (share + share.T) @ z - (2 * weight)[:, None] * attract
        else:  # bank features are constants: only among rows is everyone also a partner
            among = attract + _partners(z, labels, z, labels, True)[0]
            gradient = share @ keys + share[:, : len(z)].T @ z - weight[:, None] * among
        ctx.save_for_backward(gradient.mul_(scale / temperature))
        return loss * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None, None, None


def _partners(
    z: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor, without_self: bool
) -> tuple[Tensor, Tensor]:
    """Sum [N, D] and number [N] of each row's keys of the same label."""
    size = int(torch.maximum(labels.max(), key_labels.max())) + 1
    sums = z.new_zeros(size, z.shape[1]).index_add_(0, key_labels, keys)[labels]
    counts = torch.bincount(key_labels, minlength=size)[labels]
    return (sums - z, counts - 1) if without_self else (sums, counts)
