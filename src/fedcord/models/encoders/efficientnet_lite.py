"""EfficientNet-Lite0 with ImageNet weights, as a 1280-number feature map.

Reference: Tan, Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks (ICML
2019), in the Lite variant: no squeeze-and-excitation, ReLU6.
The network is written here from its published table of blocks; the weight file's names are
translated on loading.
"""

from __future__ import annotations

import re
from pathlib import Path

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.core.errors import DataError
from fedcord.models.frozen import Encoder
from fedcord.models.initial import channels_innermost, materialise
from fedcord.models.inverted_residual import InvertedResidual, SameConv2d
from fedcord.models.options import FrozenOptions, Inputs
from fedcord.models.weights import check_name_hash, find_weights

STAGES = (
    (1, 16, 1, 3, 1),
    (6, 24, 2, 3, 2),
    (6, 40, 2, 5, 2),
    (6, 80, 3, 3, 2),
    (6, 112, 3, 5, 1),
    (6, 192, 4, 5, 2),
    (6, 320, 1, 3, 1),
)
"""Expansion, channels, blocks, kernel, stride of the first block."""

FEATURES = 1280
DEFAULT_SIZE = 128
"""Good features of small images at a bearable cost; 96 is twice as fast and a little weaker."""


class EfficientNetLite0(nn.Module):
    """The network up to its averaged last map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv2d(3, 32, 3, stride=2, bias=False)
        self.stem_norm = _norm(32)
        before = 32
        blocks = []
        for expansion, channels, depth, kernel, stride in STAGES:
            for place in range(depth):
                step = stride if place == 0 else 1
                blocks.append(InvertedResidual(before, channels, expansion, kernel, step, _norm))
                before = channels
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Conv2d(before, FEATURES, 1, bias=False)
        self.last_norm = _norm(FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] images, normalised to [-1, 1], to [B, 1280] features."""
        x = F.relu6(self.stem_norm(self.stem(channels_innermost(images))))
        x = F.relu6(self.last_norm(self.last(self.blocks(x))))
        return x.mean((2, 3))


def load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    """The encoder with the weights found on the search path."""
    path = find_weights("efficientnet-lite0", inputs.data_dirs)
    if path is None:
        raise DataError(
            "the weights of efficientnet-lite0 are not on the search path any more; "
            "put efficientnet-lite0/*.pth into a folder named in FEDCORD_DATA."
        )
    network = materialise(EfficientNetLite0, None, channels_last=True)
    _load_file(network, path)
    half = (0.5, 0.5, 0.5)
    size = options.size or DEFAULT_SIZE
    return Encoder(network, FEATURES, channels=3, size=size, mean=half, std=half)


def _load_file(network: EfficientNetLite0, path: Path) -> None:
    check_name_hash(path)
    if path.suffix == ".safetensors":
        stored = safetensors.torch.load_file(path)
    else:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    named = {_translate(name): tensor for name, tensor in stored.items()}
    own = network.state_dict()
    missing = sorted(own.keys() - named.keys())
    if missing:
        raise DataError(
            f"{path} lacks {len(missing)} of {len(own)} tensors of EfficientNet-Lite0, the first "
            f"is {missing[0]}; use the published weights."
        )
    network.load_state_dict({name: named[name] for name in own})


_PARTS = (
    (r"^_conv_stem", "stem"),
    (r"^_bn0", "stem_norm"),
    (r"^_conv_head", "last"),
    (r"^_bn1", "last_norm"),
    (r"^_blocks", "blocks"),
    (r"\._expand_conv", ".expand"),
    (r"\._bn0", ".expand_norm"),
    (r"\._depthwise_conv", ".depthwise"),
    (r"\._bn1", ".depthwise_norm"),
    (r"\._project_conv", ".project"),
    (r"\._bn2", ".project_norm"),
)


def _translate(name: str) -> str:
    for pattern, ours in _PARTS:
        name = re.sub(pattern, ours, name)
    return name


def _norm(channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels, eps=1e-3)
