"""Proximal terms: μ/2 ||θ − θ'||² over trained weights, by its gradient in closed form."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.local_sgd import AdjustGradients


def trained(network: nn.Module) -> list[nn.Parameter]:
    """The parameters that local training moves, in the network's order."""
    return [p for p in network.parameters() if p.requires_grad]


def trained_values(network: nn.Module) -> list[Tensor]:
    """Copies of their values."""
    return [p.detach().clone() for p in trained(network)]


def pull_towards(network: nn.Module, origin: Sequence[Tensor], strength: float) -> AdjustGradients:
    """Adds `strength` (θ − origin) to the gradients of the trained parameters of `network`."""
    weights = trained(network)

    def pull(gradients: list[Tensor]) -> None:
        with torch.no_grad():
            for gradient, weight, start in zip(gradients, weights, origin, strict=True):
                gradient.add_(weight - start, alpha=strength)

    return pull
