"""One layer of random convolutions: features without any training data.

Reference: Coates, Lee, Ng, An Analysis of Single-Layer Networks in Unsupervised Feature Learning
(AISTATS 2011), of which this keeps the random filters, the rectification and the four quadrants.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.core.rng import torch_generator
from fedcord.models.frozen import Encoder
from fedcord.models.options import FrozenOptions, Inputs

KERNEL = 5
QUADRANTS = 2


class RandomConvolution(nn.Module):
    """Random 5×5 filters, ReLU, and the mean over each quadrant of the image."""

    def __init__(self, channels: int, filters: int, generator: Generator) -> None:
        super().__init__()
        weight = torch.randn(filters, channels, KERNEL, KERNEL, generator=generator)
        # filters that ignore brightness: without this most of them only measure it
        weight -= weight.mean((1, 2, 3), keepdim=True)
        self.register_buffer("weight", weight / math.sqrt(channels * KERNEL**2))
        self.register_buffer("bias", 0.2 * torch.randn(filters, generator=generator))
        self.weight: Tensor
        self.bias: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """[B, C, H, W] images to [B, 4 × filters] features."""
        maps = F.conv2d(images, self.weight, self.bias, padding=KERNEL // 2).relu()
        return F.adaptive_avg_pool2d(maps, QUADRANTS).flatten(1)


def load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    """Random filters that depend on `options.seed` only, so all clients have the same."""
    generator = torch_generator(options.seed, "random-conv")
    module = RandomConvolution(inputs.shape[0], options.filters, generator)
    return Encoder(module, QUADRANTS**2 * options.filters, size=options.size or None)
