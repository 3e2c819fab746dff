"""What image networks share: maps stage by stage, features from the last, a linear head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from torch import Tensor, nn


class StagedNetwork(nn.Module, ABC):
    """A network whose stages can be looked at; a final class adds layers, `stages` and the rest.

    Attributes:
        feature_dim: D.
        head: the last linear layer, D to C.
    """

    feature_dim: int
    head: nn.Linear

    @property
    @abstractmethod
    def stage_names(self) -> tuple[str, ...]:
        """A name for each of `stages`."""

    @abstractmethod
    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, C, H, W] images to the map of every stage, before activation."""

    @abstractmethod
    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""

    def features(self, inputs: Tensor) -> Tensor:
        """[B, C, H, W] images to [B, D] features, not negative."""
        return self.features_after(self.stages(inputs)[-1])

    def activated(self, stages: list[Tensor]) -> list[Tensor]:
        """`stages` as the next layer reads them: after ReLU, unless a network says otherwise."""
        return [stage.relu() for stage in stages]

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, C, H, W] images to [B, D] features and the activated map of every stage."""
        stages = self.stages(inputs)
        return self.features_after(stages[-1]), self.activated(stages)

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return cast(Tensor, self.head(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, C, H, W] images to [B, C] class scores."""
        return self.classify(self.features(inputs))
