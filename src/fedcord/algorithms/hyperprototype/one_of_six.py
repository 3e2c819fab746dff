"""One random change for a whole draw of images: colour, crop, cutout, flip, scale or rotation.

The kinds and strengths are those of differentiable siamese augmentation (Zhao and Bilen, ICML 2021)
as FedHPro's code sets them. It works on prepared images, where 0 is the mean of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

BRIGHTNESS, SATURATION, CONTRAST = 1.0, 2.0, 0.5
SHIFT, HOLE, ZOOM, DEGREES, MIRRORED = 0.125, 0.5, 1.2, 15.0, 0.5


def one_of_six(images: Tensor, generator: Generator) -> Tensor:
    """[B, C, H, W] changed by one kind with the same numbers for every image."""
    which = int(torch.randint(len(CHANGES), (1,), generator=generator))
    return CHANGES[which](images, generator)


def color(images: Tensor, generator: Generator) -> Tensor:
    """Brightness shifted by ±½, then saturation by a factor below 2, then contrast by ½ to 1½."""
    shift, saturation, contrast = torch.rand(3, generator=generator).tolist()
    bright = images + BRIGHTNESS * (shift - 0.5)
    grey = bright.mean(1, keepdim=True)
    coloured = (bright - grey) * (SATURATION * saturation) + grey
    middle = coloured.mean((1, 2, 3), keepdim=True)
    changed: Tensor = (coloured - middle) * (CONTRAST + contrast) + middle
    return changed


def crop(images: Tensor, generator: Generator) -> Tensor:
    """Shifted by up to an eighth of each side, 0 outside."""
    pads = [max(1, round(side * SHIFT)) for side in images.shape[2:]]
    top, left = (int(torch.randint(2 * pad + 1, (1,), generator=generator)) for pad in pads)
    padded = F.pad(images, (pads[1], pads[1], pads[0], pads[0]))
    return padded[:, :, top : top + images.shape[2], left : left + images.shape[3]]


def cutout(images: Tensor, generator: Generator) -> Tensor:
    """A rectangle of half of each side is 0; its centre may lie anywhere in the image."""
    out = images.clone()
    spans = []
    for side in images.shape[2:]:
        length = round(side * HOLE)
        start = int(torch.randint(side, (1,), generator=generator)) - length // 2
        spans.append(slice(max(start, 0), max(start + length, 0)))
    out[:, :, spans[0], spans[1]] = 0
    return out


def flip(images: Tensor, generator: Generator) -> Tensor:
    """Mirrored left to right, or not."""
    return images.flip(3) if float(torch.rand(1, generator=generator)) < MIRRORED else images


def scale(images: Tensor, generator: Generator) -> Tensor:
    """Each axis stretched or shrunk by a factor of up to 1.2."""
    low, high = 1 / ZOOM, ZOOM
    across, down = (low + (high - low) * torch.rand(2, generator=generator)).tolist()
    return _turned(images, [[across, 0.0, 0.0], [0.0, down, 0.0]])


def rotate(images: Tensor, generator: Generator) -> Tensor:
    """Turned by up to 15 degrees either way."""
    angle = math.radians(DEGREES) * (2 * float(torch.rand(1, generator=generator)) - 1)
    cos, sin = math.cos(angle), math.sin(angle)
    return _turned(images, [[cos, -sin, 0.0], [sin, cos, 0.0]])


def _turned(images: Tensor, matrix: list[list[float]]) -> Tensor:
    each = torch.tensor(matrix, device=images.device).expand(len(images), 2, 3)
    grid = F.affine_grid(each, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


CHANGES: tuple[Callable[[Tensor, Generator], Tensor], ...] = (
    color,
    crop,
    cutout,
    flip,
    scale,
    rotate,
)
