"""What a network can be asked for."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Output = Callable[[nn.Module, Tensor], Tensor]
"""(network, prepared inputs [B, ...]) to [B, anything]."""


def features_of(network: nn.Module, inputs: Tensor) -> Tensor:
    """[B, D] features."""
    features: Tensor = network.features(inputs)  # type: ignore[operator]
    return features


def scores_of(network: nn.Module, inputs: Tensor) -> Tensor:
    """[B, C] class scores."""
    scores: Tensor = network(inputs)
    return scores
