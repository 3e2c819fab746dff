"""Small convolutional network for images of any size from 8×8."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.models.initial import channels_innermost, materialise
from fedcord.models.options import CNNOptions, Inputs
from fedcord.models.sizes import cnn_channels, cnn_is_padded, cnn_map_size
from fedcord.models.staged import StagedNetwork


class CNN(StagedNetwork):
    """Convolutions, each followed by 2×2 max-pooling and ReLU, then one hidden layer.

    Attributes:
        feature_dim: units of the hidden layer.
    """

    def __init__(
        self,
        in_channels: int,
        channels: tuple[int, ...],
        kernel: int,
        is_padded: bool,
        map_size: tuple[int, int],
        fc: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        padding = kernel // 2 if is_padded else 0
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, kernel, padding=padding)
            for before, after in zip((in_channels, *channels), channels, strict=False)
        )
        self.hidden = nn.Linear(channels[-1] * map_size[0] * map_size[1], fc)
        self.head = nn.Linear(fc, num_classes)
        self.feature_dim = fc

    @property
    def stage_names(self) -> tuple[str, ...]:
        """`map1`, `map2`, …: one per convolution."""
        return tuple(f"map{number}" for number in range(1, len(self.convolutions) + 1))

    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, C, H, W] images to the map after each convolution and pooling, before ReLU."""
        x = channels_innermost(inputs)
        outputs: list[Tensor] = []
        for convolution in self.convolutions:
            # pooling first: ReLU commutes with the maximum and then works on a quarter of the map
            outputs.append(F.max_pool2d(convolution(x), 2))
            x = outputs[-1].relu()
        return outputs

    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""
        return cast(Tensor, self.hidden(last_stage.relu().flatten(1))).relu()


def build_cnn(options: CNNOptions, inputs: Inputs, generator: Generator | None) -> CNN:
    """A small convolutional network for `inputs`."""
    channels = cnn_channels(options, inputs.shape)
    map_size = cnn_map_size(options, inputs.shape)
    return materialise(
        lambda: CNN(
            inputs.shape[0],
            channels,
            options.kernel,
            cnn_is_padded(options),
            map_size,
            options.fc,
            inputs.num_classes,
        ),
        generator,
        channels_last=True,
    )
