"""What a network's stages say about a batch, one vector per example and stage."""

from __future__ import annotations

from torch import Tensor, nn

from fedcord.algorithms.kit.outputs import features_of
from fedcord.ops.unit import unit


def stages_and_scores(network: nn.Module, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """Directions [B, D_l] of every stage, and class scores [B, C], from one forward pass.

    A stage's map is taken before activation and averaged over its places. A network without
    `stages` (MLPs, text, frozen encoders) has one: its features.
    """
    if hasattr(network, "stages"):
        maps: list[Tensor] = network.stages(inputs)  # type: ignore[operator]
        features: Tensor = network.features_after(maps[-1])  # type: ignore[operator]
    else:
        features = features_of(network, inputs)
        maps = [features]
    scores: Tensor = network.classify(features)  # type: ignore[operator]
    pooled = [m if m.dim() == 2 else m.flatten(2).mean(2) for m in maps]
    return [unit(vectors) for vectors in pooled], scores
