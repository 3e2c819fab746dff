"""One step of an optimiser at the server, which takes the clients' mean change for a gradient.

References: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 2 (adaptive
rules); Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019 (momentum).

| paper | here |
|---|---|
| x, Δ | `before`; `mean` − `before` |
| momentum: v ← β v + Δ, x ← x + η v | `first.*` of the moments |
| adaptive: m ← β₁ m + (1 − β₁) Δ | `first.*` of the moments |
| adam: v ← β₂ v + (1 − β₂) Δ² | `second.*` of the moments |
| yogi: v ← v − (1 − β₂) Δ² sign(v − Δ²) | `second.*` |
| adagrad: v ← v + Δ² | `second.*` |
| adaptive: x ← x + η m / (√v + τ) | `lr` = η, `adaptivity` = τ |

There is no bias correction, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.tensors import Tensors

RULES = ("momentum", "adam", "yogi", "adagrad")


@dataclass(frozen=True)
class ServerRule:
    """How the server moves.

    Attributes:
        kind: one of `RULES`.
        lr: η.
        momentum: β of momentum, β₁ of the adaptive rules.
        decay: β₂; adagrad has none.
        adaptivity: τ.
        second_start: what v starts with; the paper wants at least τ².
    """

    kind: str
    lr: float
    momentum: float = 0.9
    decay: float = 0.99
    adaptivity: float = 1e-3
    second_start: float = 0.0


def server_step(
    rule: ServerRule, before: Tensors, mean: Tensors, moments: Tensors
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors after the step, and the moments for the next one.

    Args:
        rule: how.
        before: what clients started from, floating tensors.
        mean: the weighted mean of what they arrived at.
        moments: what the step before gave; empty at first.
    """
    after: dict[str, Tensor] = {}
    kept: dict[str, Tensor] = {}
    for name, start in before.items():
        change = mean[name] - start
        first = moments.get(f"first.{name}", torch.zeros_like(start))
        if rule.kind == "momentum":
            # x + η (β v + Δ), arranged so that η = 1 without velocity gives the very mean
            velocity = rule.momentum * first
            after[name] = mean[name] + (rule.lr - 1) * change + rule.lr * velocity
            kept[f"first.{name}"] = velocity + change
            continue
        first = first.lerp(change, 1 - rule.momentum)
        second = moments.get(f"second.{name}", torch.full_like(start, rule.second_start))
        second = _second_moment(rule, second, change.square())
        after[name] = start + rule.lr * first / (second.sqrt() + rule.adaptivity)
        kept |= {f"first.{name}": first, f"second.{name}": second}
    return after, kept


def _second_moment(rule: ServerRule, before: Tensor, square: Tensor) -> Tensor:
    if rule.kind == "adam":
        return before.lerp(square, 1 - rule.decay)
    if rule.kind == "yogi":
        return before - (1 - rule.decay) * square * torch.sign(before - square)
    return before + square
