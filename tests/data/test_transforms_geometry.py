"""Crops and flips against loops over samples."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.data.transforms import random_crop, random_flip, random_resized_crop
from fedcord.data.transforms.draws import choose
from fedcord.data.transforms.geometry import ATTEMPTS, _middle


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stored(count: int = 12, channels: int = 3, side: int = 8) -> Tensor:
    shape = (count, channels, side, side)
    return torch.randint(1, 256, shape, dtype=torch.uint8, generator=generator(9))


@pytest.mark.parametrize("channels", [1, 3])
def test_crop_equals_sample_loop(channels: int) -> None:
    x = stored(channels=channels)
    out = random_crop(x, generator(1), padding=2)
    place = (torch.rand(len(x), 2, generator=generator(1)) * 5).long().tolist()
    for i, (top, left) in enumerate(place):
        padded = torch.zeros(channels, 12, 12, dtype=torch.uint8)
        padded[:, 2:10, 2:10] = x[i]
        assert torch.equal(out[i], padded[:, top : top + 8, left : left + 8])
    assert len(set(map(tuple, place))) > 5


def test_crop_without_padding_is_identity() -> None:
    x = stored()
    assert torch.equal(random_crop(x, generator(), padding=0), x)


def test_crop_reaches_every_place_evenly() -> None:
    x = torch.zeros(9000, 1, 3, 3, dtype=torch.uint8)
    x[:, 0, 1, 1] = 1
    out = random_crop(x, generator(), padding=1)
    counts = out.sum(0).flatten().float()
    assert counts.sum() == 9000
    assert counts.min() > 880
    assert counts.max() < 1120


def test_flip_equals_sample_loop() -> None:
    x = stored(40)
    out = random_flip(x, generator(2))
    chosen = (torch.rand(40, generator=generator(2)) < 0.5).tolist()
    assert 5 < sum(chosen) < 35
    for i, is_mirrored in enumerate(chosen):
        columns = range(7, -1, -1) if is_mirrored else range(8)
        wanted = torch.stack([x[i, :, :, column] for column in columns], dim=-1)
        assert torch.equal(out[i], wanted)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_flip_limits(probability: float) -> None:
    x = stored()
    wanted = x.flip(3) if probability else x
    assert torch.equal(random_flip(x, generator(), probability=probability), wanted)


def slow_rectangle(
    shapes: Tensor, place: Tensor, size: tuple[int, int], scale: tuple[float, float]
) -> tuple[int, int, int, int]:
    """One sample: try shapes in turn; the first that fits is placed, else the middle is taken."""
    height, width = size
    for area_number, ratio_number in shapes.tolist():
        area = height * width * (scale[0] + (scale[1] - scale[0]) * area_number)
        low, high = math.log(3 / 4), math.log(4 / 3)
        ratio = math.exp(low + (high - low) * ratio_number)
        columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < columns <= width and 0 < rows <= height:
            top = int(float(place[0]) * (height - rows + 1))
            left = int(float(place[1]) * (width - columns + 1))
            return top, left, rows, columns
    rows, columns = _middle(size, (3 / 4, 4 / 3))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


@pytest.mark.parametrize("size", [(12, 12), (9, 14), (16, 4)])
@pytest.mark.parametrize("scale", [(0.2, 1.0), (0.95, 1.0)])
def test_resized_crop_equals_cutting_then_enlarging(
    size: tuple[int, int], scale: tuple[float, float]
) -> None:
    count = 50
    x = torch.rand(count, 3, *size, generator=generator(9))
    out = random_resized_crop(x, generator(4), scale=scale)
    g = generator(4)
    shapes = torch.rand(count, ATTEMPTS, 2, generator=g)
    places = torch.rand(count, 2, generator=g)
    rectangles = set()
    for i in range(count):
        top, left, rows, columns = slow_rectangle(shapes[i], places[i], size, scale)
        rectangles.add((top, left, rows, columns))
        cut = x[i : i + 1, :, top : top + rows, left : left + columns]
        wanted = F.interpolate(cut, size=size, mode="bilinear", align_corners=False)[0]
        torch.testing.assert_close(out[i], wanted, atol=1e-5, rtol=0)
    assert len(rectangles) > (20 if scale[0] < 0.5 and min(size) > 4 else 0)


def test_resized_crop_of_everything_is_identity() -> None:
    x = torch.rand(6, 3, 8, 8, generator=generator(9))
    out = random_resized_crop(x, generator(), scale=(1.0, 1.0), ratio=(1.0, 1.0))
    torch.testing.assert_close(out, x, atol=1e-6, rtol=0)


def test_middle_keeps_the_ratio() -> None:
    assert _middle((10, 10), (0.75, 4 / 3)) == (10, 10)
    assert _middle((40, 12), (0.75, 4 / 3)) == (16, 12)
    assert _middle((12, 40), (0.75, 4 / 3)) == (12, 16)


def test_choose_never_reaches_the_limit() -> None:
    largest = torch.full((500,), 1 - 2**-24)  # the largest number torch.rand gives
    limits = torch.arange(1, 501)
    assert torch.equal(choose(largest, limits), limits - 1)
    assert torch.equal(choose(torch.zeros(500), limits), torch.zeros(500, dtype=torch.long))
