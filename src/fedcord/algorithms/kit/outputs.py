"""What a network can be asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from fedcord.core.task import Network

Output = Callable[[nn.Module | Network, Tensor], Tensor]
"""(network, prepared inputs [B, ...]) to [B, anything]."""


def features_of(network: nn.Module | Network, inputs: Tensor) -> Tensor:
    """[B, D] features."""
    return cast(Network, network).features(inputs)


def scores_of(network: nn.Module | Network, inputs: Tensor) -> Tensor:
    """[B, C] class scores."""
    scores: Tensor = network(inputs)
    return scores
