"""The smallest convolutional network that has everything a large one has."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.models.initial import materialise
from fedcord.models.staged import StagedNetwork


class TinyNetwork(StagedNetwork):
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

    @property
    def stage_names(self) -> tuple[str, ...]:
        """One per convolution."""
        return ("map1", "map2")

    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, 1, 8, 8] images to the map after each convolution, before ReLU."""
        first = self.norm1(self.conv1(inputs))
        second = self.norm2(self.conv2(F.max_pool2d(first.relu(), 2)))
        return [first, second]

    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""
        return last_stage.relu().mean((2, 3))


def build_tiny_network(generator: Generator | None) -> nn.Module:
    """A network with weights drawn from `generator`; without one they are undefined."""
    return materialise(TinyNetwork, generator)
