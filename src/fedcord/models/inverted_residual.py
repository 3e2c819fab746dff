"""The block of MobileNetV2 and EfficientNet-Lite: widen, filter each channel alone, narrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn


class SameConv2d(nn.Conv2d):
    """Convolution padded so that the output has ceil(size / stride) places.

    When the padding is odd the extra line goes below and right, as TensorFlow does; networks
    trained there (EfficientNet) need it. For stride 1 it is ordinary symmetric padding.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (the base class names it so)
        """[B, C, H, W] to [B, C', ceil(H / stride), ceil(W / stride)]."""
        pads = []
        for size, kernel, stride in zip(
            (input.shape[3], input.shape[2]), self.kernel_size[::-1], self.stride[::-1], strict=True
        ):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(
                input, self.weight, self.bias, self.stride, (pads[2], pads[0]), 1, self.groups
            )
        return super().forward(F.pad(input, pads))


class InvertedResidual(nn.Module):
    """1×1 widening, depth-wise filter, 1×1 narrowing without activation; shortcut where it fits."""

    def __init__(
        self,
        before: int,
        after: int,
        expansion: int,
        kernel: int,
        stride: int,
        norm: Callable[[int], nn.Module],
    ) -> None:
        super().__init__()
        inner = before * expansion
        self.expand: nn.Module | None = None
        self.expand_norm: nn.Module | None = None
        if expansion != 1:
            self.expand = nn.Conv2d(before, inner, 1, bias=False)
            self.expand_norm = norm(inner)
        self.depthwise = SameConv2d(inner, inner, kernel, stride=stride, groups=inner, bias=False)
        self.depthwise_norm = norm(inner)
        self.project = nn.Conv2d(inner, after, 1, bias=False)
        self.project_norm = norm(after)
        self.has_shortcut = stride == 1 and before == after

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, C, H, W] to [B, C', H', W']."""
        x = inputs
        if self.expand is not None and self.expand_norm is not None:
            x = F.relu6(self.expand_norm(self.expand(x)))
        x = F.relu6(self.depthwise_norm(self.depthwise(x)))
        x = self.project_norm(self.project(x))
        return cast(Tensor, x + inputs if self.has_shortcut else x)
