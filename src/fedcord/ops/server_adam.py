"""One step of Adam at the server, towards the clients' mean: FedAdam.

Reference: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 2.

| paper | here |
|---|---|
| x, Δ | `before`; `mean` − `before` |
| m ← β₁ m + (1 − β₁) Δ | `first.*` of the moments |
| v ← β₂ v + (1 − β₂) Δ² | `second.*` of the moments |
| x ← x + η m / (√v + τ) | `lr` = η |

Adam without bias correction. Both moments start at 0, as in FENS's code; the paper's v starts at τ²
or more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.core.tensors import Tensors

BETAS = (0.9, 0.99)
ADAPTIVITY = 1e-3
"""β₁, β₂ and τ, as the paper recommends."""


def server_adam(
    before: Tensors, mean: Tensors, moments: Tensors, lr: float
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors after the step, and the moments for the next one.

    Args:
        before: what clients started from, floating tensors.
        mean: the weighted mean of what they arrived at.
        moments: what the step before gave; empty at first.
        lr: η.
    """
    after: dict[str, Tensor] = {}
    kept: dict[str, Tensor] = {}
    for name, start in before.items():
        change = mean[name] - start
        nothing = torch.zeros_like(start)
        first = moments.get(f"first.{name}", nothing).lerp(change, 1 - BETAS[0])
        second = moments.get(f"second.{name}", nothing).lerp(change.square(), 1 - BETAS[1])
        after[name] = start + lr * first / (second.sqrt() + ADAPTIVITY)
        kept |= {f"first.{name}": first, f"second.{name}": second}
    return after, kept
