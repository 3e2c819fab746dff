"""Mirrors and crops at random places, shifted or enlarged.

All work on the whole batch at once with a draw per sample. Sizes and chances are those of the
usual image libraries, so that published settings mean the same here.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedcord.data.transforms.draws import choose, choose_rows, uniform

ATTEMPTS = 10
"""Rectangles tried per sample before the middle of the image is taken."""


def random_flip(
    images: Tensor, generator: Generator, *, probability: float = 0.5, shared: bool = False
) -> Tensor:
    """Mirror each image [B, C, H, W] left to right with the given probability."""
    chosen = uniform(generator, len(images), shared=shared) < probability
    return choose_rows(chosen, images.flip(3), images)


def random_crop(
    images: Tensor, generator: Generator, *, padding: int, shared: bool = False
) -> Tensor:
    """Surround each image [B, C, H, W] with black and cut the same size at a random place.

    Works on stored bytes as on floats; black is 0 in both.
    """
    count, _, height, width = images.shape
    place = choose(uniform(generator, count, 2, shared=shared), 2 * padding + 1)
    padded = F.pad(images, (padding, padding, padding, padding))
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view of every possible cut
    return windows[torch.arange(count), :, place[:, 0], place[:, 1]]


def random_resized_crop(
    images: Tensor,
    generator: Generator,
    *,
    scale: tuple[float, float] = (0.2, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    shared: bool = False,
) -> Tensor:
    """Cut a random rectangle of each image and enlarge it to the image's own size.

    Args:
        images: [B, C, H, W] float.
        generator: source of all draws.
        scale: range of the rectangle's area as a share of the image.
        ratio: range of width / height, drawn evenly on the logarithm.
        shared: one rectangle for the whole batch.
    """
    count, channels, height, width = images.shape
    top, left, rows, columns = _rectangles(
        uniform(generator, count, ATTEMPTS, 2, shared=shared),
        uniform(generator, count, 2, shared=shared),
        (height, width),
        scale,
        ratio,
    )
    # bilinear enlargement is linear and separable: two small matrices per sample, as BLAS likes
    vertical = _interpolation(top, rows, height)  # [B, H, H]
    horizontal = _interpolation(left, columns, width)  # [B, W, W]
    wide = torch.bmm(images.reshape(count, channels * height, width), horizontal.mT)
    return torch.matmul(vertical[:, None], wide.view(count, channels, height, width))


def _rectangles(
    shapes: Tensor,
    places: Tensor,
    size: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, rows and columns [B] of the first rectangle that fits, else of the middle.

    Args:
        shapes: [B, ATTEMPTS, 2] uniform numbers for area and ratio.
        places: [B, 2] uniform numbers for the place.
        size: height and width of the images.
        scale: range of the area's share.
        ratio: range of width / height.
    """
    height, width = size
    area = height * width * (scale[0] + (scale[1] - scale[0]) * shapes[..., 0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    shape = torch.exp(low + (high - low) * shapes[..., 1])
    columns = torch.round(torch.sqrt(area * shape)).long()
    rows = torch.round(torch.sqrt(area / shape)).long()
    fits = (columns > 0) & (columns <= width) & (rows > 0) & (rows <= height)
    first = fits.int().argmax(1, keepdim=True)  # the first of equal maxima
    any_fits = fits.any(1)
    rows = torch.where(any_fits, rows.gather(1, first)[:, 0], _middle(size, ratio)[0])
    columns = torch.where(any_fits, columns.gather(1, first)[:, 0], _middle(size, ratio)[1])
    top = choose(places[:, 0], height - rows + 1)
    left = choose(places[:, 1], width - columns + 1)
    top = torch.where(any_fits, top, (height - rows) // 2)
    left = torch.where(any_fits, left, (width - columns) // 2)
    return top, left, rows, columns


def _middle(size: tuple[int, int], ratio: tuple[float, float]) -> tuple[int, int]:
    """Rows and columns of the largest rectangle with an allowed ratio."""
    height, width = size
    if width / height < ratio[0]:
        return min(height, round(width / ratio[0])), width
    if width / height > ratio[1]:
        return height, min(width, round(height * ratio[1]))
    return height, width


def _interpolation(start: Tensor, length: Tensor, size: int) -> Tensor:
    """[B, size, size] weights that read `size` points from `length` pixels after `start`.

    Row i holds the bilinear weights of output pixel i; pixels outside the rectangle have none, so
    its border repeats as if it had been cut out first.
    """
    pixels = torch.arange(size)
    centre = (pixels + 0.5) * (length[:, None] / size) - 0.5
    centre = torch.minimum(centre.clamp(min=0), length[:, None] - 1.0) + start[:, None]
    return (1 - (centre[:, :, None] - pixels).abs()).clamp(min=0)
