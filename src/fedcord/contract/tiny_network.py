"""The smallest convolutional network that has everything a large one has."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.models.initial import materialise


class TinyNetwork(nn.Module):
    """Two convolutions with batch normalisation, average pooling, one linear layer.

    One 8×8 image leaves a 4×4 map, so that even a batch of one has a variance.

    Attributes:
        feature_dim: channels of the last map.
    """

    def __init__(self, num_classes: int = 3, width: int = 6) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.head = nn.Linear(2 * width, num_classes)
        self.feature_dim = 2 * width

    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, 1, 8, 8] images to the map after each convolution, before ReLU."""
        first = self.norm1(self.conv1(inputs))
        second = self.norm2(self.conv2(F.max_pool2d(first.relu(), 2)))
        return [first, second]

    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""
        return last_stage.relu().mean((2, 3))

    def features(self, inputs: Tensor) -> Tensor:
        """[B, 1, 8, 8] images to [B, D] features."""
        return self.features_after(self.stages(inputs)[-1])

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return cast(Tensor, self.head(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, 1, 8, 8] images to [B, C] class scores."""
        return self.classify(self.features(inputs))


def build_tiny_network(generator: Generator | None) -> nn.Module:
    """A network with weights drawn from `generator`; without one they are undefined."""
    return materialise(TinyNetwork, generator)
