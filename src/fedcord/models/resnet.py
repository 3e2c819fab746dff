"""Residual networks for small images: 3×3 stem without pooling, four stages, average pooling.

Reference: He et al., Deep Residual Learning for Image Recognition (CVPR 2016), in the form
federated learning papers use on CIFAR, FAFI and FedHPro among them.

Blocks hand on their sum *before* the last ReLU and apply ReLU to what they receive. The function is
the usual one; the form makes `stages` (needed by FedRCL) cost nothing.
"""

from __future__ import annotations

from typing import cast

from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedcord.models.initial import channels_innermost, materialise
from fedcord.models.norm import check_batch, make_norm
from fedcord.models.options import Inputs, ResNetOptions
from fedcord.models.staged import StagedNetwork


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut; pre-activation in, pre-activation out."""

    def __init__(self, before: int, after: int, stride: int, norm: str, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm1 = make_norm(norm, after, groups)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = make_norm(norm, after, groups)
        self.stride = stride
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, bias=False),
                make_norm(norm, after, groups),
            )

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, C, H, W] to [B, C', H', W'], both before ReLU."""
        x = inputs.relu()
        inner = self.norm1(self.conv1(x)).relu()
        # a 1×1 convolution with stride is one without on every other pixel; torch 2.13 crashes in
        # the backward pass of the former for channels-last inputs with fewer than 8 channels
        # (by a pool of one pixel, since the gradient of a slice loses the channels-last layout)
        kept = x if self.stride == 1 else F.max_pool2d(x, 1, self.stride)
        return cast(Tensor, self.norm2(self.conv2(inner)) + self.shortcut(kept))


class ResNet(StagedNetwork):
    """Residual network whose features are the averaged, not negative, last map.

    Attributes:
        feature_dim: 8 × `width`.
    """

    def __init__(
        self,
        in_channels: int,
        depths: tuple[int, ...],
        width: int,
        norm: str,
        groups: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.stem_norm = make_norm(norm, width, groups)
        before = width
        stages = []
        for level, depth in enumerate(depths):
            after = width * 2**level
            blocks = []
            for place in range(depth):
                stride = 2 if level > 0 and place == 0 else 1
                blocks.append(BasicBlock(before, after, stride, norm, groups))
                before = after
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.ModuleList(stages)
        self.head = nn.Linear(before, num_classes)
        self.feature_dim = before
        self._has_batch_norm = norm == "batch"

    @property
    def stage_names(self) -> tuple[str, ...]:
        """`stem`, `stage1`, …."""
        stages = (f"stage{number}" for number in range(1, len(self.blocks) + 1))
        return ("stem", *stages)

    def stages(self, inputs: Tensor) -> list[Tensor]:
        """[B, C, H, W] images to five maps before ReLU: the stem's and each stage's."""
        if self.training:
            check_batch(inputs, stride=8, has_batch_norm=self._has_batch_norm)
        outputs = [self.stem_norm(self.stem(channels_innermost(inputs)))]
        for stage in self.blocks:
            outputs.append(stage(outputs[-1]))
        return outputs

    def features_after(self, last_stage: Tensor) -> Tensor:
        """The last of `stages` to [B, D] features."""
        return last_stage.relu().mean((2, 3))


def build_resnet(options: ResNetOptions, inputs: Inputs, generator: Generator | None) -> ResNet:
    """A residual network for `inputs`."""
    return materialise(
        lambda: ResNet(
            inputs.shape[0],
            options.blocks,
            options.width,
            options.norm,
            options.groups,
            inputs.num_classes,
        ),
        generator,
        he_fan_out=True,
        channels_last=True,
    )
