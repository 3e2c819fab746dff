"""MobileNetV2-style light network for images of 32 or 64 pixels.

Reference: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks (CVPR 2018). The
first two size reductions of the original are left out for small images, so 32 pixels end as 4×4;
images from 48 pixels have the stem's reduction again.
"""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.models.initial import channels_innermost, materialise
from fedcord.models.inverted_residual import InvertedResidual, SameConv2d
from fedcord.models.norm import check_batch, make_norm
from fedcord.models.options import Inputs, MobileNetOptions
from fedcord.models.staged import StagedNetwork

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, stride of the first block."""


class MobileNet(StagedNetwork):
    """Inverted residual blocks between a 3×3 stem and a 1×1 convolution.

    Attributes:
        feature_dim: 1280 × `factor`, at least 64.
    """

    def __init__(
        self,
        in_channels: int,
        factor: float,
        stem_stride: int,
        norm: str,
        groups: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        make = partial(_norm, norm, groups)
        before = _scaled(32, factor)
        self.stem = SameConv2d(in_channels, before, 3, stride=stem_stride, bias=False)
        self.stem_norm = make(before)
        stages = []
        for expansion, channels, depth, stride in STAGES:
            after = _scaled(channels, factor)
            blocks = []
            for place in range(depth):
                step = stride if place == 0 else 1
                blocks.append(InvertedResidual(before, after, expansion, 3, step, make))
                before = after
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.ModuleList(stages)
        self.feature_dim = max(_scaled(1280, factor), 64)
        self.last = nn.Conv2d(before, self.feature_dim, 1, bias=False)
        self.last_norm = make(self.feature_dim)
        self.head = nn.Linear(self.feature_dim, num_classes)
        self._has_batch_norm = norm == "batch"
        self._stride = 8 * stem_stride

    @property
    def stage_names(self) -> tuple[str, ...]:
        """`stem`, `stage1`, …, `last`."""
        stages = (f"stage{number}" for number in range(1, len(self.blocks) + 1))
        return ("stem", *stages, "last")

    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, C, H, W] images to the maps, before activation, of stem, stages and last layer."""
        if self.training:
            check_batch(inputs, self._stride, self._has_batch_norm)
        outputs = [self.stem_norm(self.stem(channels_innermost(inputs)))]
        x = F.relu6(outputs[0])
        for stage in self.blocks:
            x = stage(x)
            outputs.append(x)
        outputs.append(self.last_norm(self.last(x)))
        return outputs

    def activated(self, stages: list[Tensor]) -> list[Tensor]:
        """`stages` as the next layer reads them: bottlenecks are linear."""
        stem, *bottlenecks, last = stages
        return [F.relu6(stem), *bottlenecks, F.relu6(last)]

    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""
        return F.relu6(last_stage).mean((2, 3))


def build_mobilenet(
    options: MobileNetOptions, inputs: Inputs, generator: Generator | None
) -> MobileNet:
    """A light network for `inputs`."""
    stem_stride = 2 if min(inputs.shape[1:]) >= 48 else 1
    return materialise(
        lambda: MobileNet(
            inputs.shape[0],
            options.width,
            stem_stride,
            options.norm,
            options.groups,
            inputs.num_classes,
        ),
        generator,
        he_fan_out=True,
        channels_last=True,
    )


def _norm(norm: str, groups: int, channels: int) -> nn.Module:
    return make_norm(norm, channels, groups)


def _scaled(channels: int, factor: float) -> int:
    """Multiples of 8, which vector units like and groups divide."""
    return max(8, int(channels * factor + 4) // 8 * 8)
