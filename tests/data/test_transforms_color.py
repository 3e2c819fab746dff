"""Colour changes against a slow derivation that treats one pixel at a time."""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedcord.data.transforms import color_jitter, random_grayscale
from fedcord.data.transforms.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    gray,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 5, channels: int = 3, side: int = 6) -> Tensor:
    return torch.rand(count, channels, side, side, generator=generator(9))


def column(*values: float) -> Tensor:
    return torch.tensor(values).view(-1, 1, 1, 1)


def clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def luma(pixel: list[float]) -> float:
    return 0.2989 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def pixels(image: Tensor) -> list[list[float]]:
    rows: list[list[float]] = image.flatten(1).T.tolist()
    return rows


def as_image(rows: list[list[float]], like: Tensor) -> Tensor:
    return torch.tensor(rows).T.reshape(like.shape)


def jitter(
    x: Tensor, seed: int, spans: tuple[float, float, float, float], probability: float = 1.0
) -> Tensor:
    brightness, contrast, saturation, hue = spans
    return color_jitter(
        x,
        generator(seed),
        brightness=brightness,
        contrast=contrast,
        saturation=saturation,
        hue=hue,
        probability=probability,
    )


FACTORS = (0.0, 0.6, 1.0, 1.4, 2.0)


def slow(name: str, image: Tensor, strength: float) -> Tensor:
    rows = pixels(image)
    mean = sum(map(luma, rows)) / len(rows)
    out = []
    for pixel in rows:
        if name == "hue":
            h, s, v = colorsys.rgb_to_hsv(*pixel)
            out.append(list(colorsys.hsv_to_rgb((h + strength) % 1.0, s, v)))
            continue
        other = {"brightness": 0.0, "contrast": mean, "saturation": luma(pixel)}[name]
        out.append([clip(strength * value + (1 - strength) * other) for value in pixel])
    return as_image(out, image)


@pytest.mark.parametrize(
    ("name", "change", "strengths"),
    [
        ("brightness", adjust_brightness, FACTORS),
        ("contrast", adjust_contrast, FACTORS),
        ("saturation", adjust_saturation, FACTORS),
        ("hue", adjust_hue, (-0.5, -0.1, 0.0, 0.1, 0.37)),
    ],
)
def test_change_equals_pixel_loop(
    name: str, change: Callable[[Tensor, Tensor], Tensor], strengths: tuple[float, ...]
) -> None:
    x = images(len(strengths))
    wanted = torch.stack([slow(name, x[i], s) for i, s in enumerate(strengths)])
    torch.testing.assert_close(change(x, column(*strengths)), wanted, atol=2e-6, rtol=0)


def test_hue_of_grey_black_and_primary_pixels() -> None:
    colours = [[0.5, 0.5, 0.5], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1]]
    x = torch.tensor(colours, dtype=torch.float32).T.reshape(1, 3, 1, -1)
    wanted = slow("hue", x[0], 1 / 3).unsqueeze(0)
    torch.testing.assert_close(adjust_hue(x, column(1 / 3)), wanted, atol=2e-6, rtol=0)


def test_jitter_applies_every_change_in_some_order() -> None:
    x = images(64, side=4)
    settings = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.2, "hue": 0.1}
    out = jitter(x, 3, (0.4, 0.3, 0.2, 0.1))
    g = generator(3)
    torch.rand(64, generator=g)  # chosen
    order = torch.rand(64, 4, generator=g).argsort(1)
    numbers = torch.rand(64, 4, generator=g)
    names = list(settings)
    seen = set()
    for i in range(64):
        wanted = x[i]
        for step in order[i].tolist():
            name = names[step]
            span, number = settings[name], float(numbers[i, step])
            base = 0.0 if name == "hue" else 1.0
            wanted = slow(name, wanted, base - span + 2 * span * number)
        seen.add(tuple(order[i].tolist()))
        torch.testing.assert_close(out[i], wanted, atol=1e-5, rtol=0)
    assert len(seen) > 12  # orders differ between samples


def test_jitter_without_strength_or_chance_is_identity() -> None:
    x = images()
    assert torch.equal(jitter(x, 0, (0, 0, 0, 0)), x)
    much = (0.9, 0.9, 0.9, 0.5)
    assert torch.equal(jitter(x, 0, much, probability=0), x)
    assert not torch.equal(jitter(x, 0, much), x)


def test_jitter_probability_is_a_share_of_samples() -> None:
    x = images(1, side=2).expand(4000, -1, -1, -1)
    out = jitter(x, 0, (0.4, 0, 0, 0), probability=0.8)
    share = (out != x).flatten(1).any(1).float().mean()
    assert 0.77 < share < 0.83


def test_grayscale_chance_and_values() -> None:
    x = images(2000, side=2)
    out = random_grayscale(x, generator(), probability=0.2)
    changed = (out != x).flatten(1).any(1)
    assert 0.16 < changed.float().mean() < 0.24
    assert torch.equal(out[changed], gray(x[changed]).expand(-1, 3, -1, -1))
    assert torch.equal(out[~changed], x[~changed])


def test_grey_images_have_no_saturation_hue_or_grayscale() -> None:
    x = images(channels=1)
    assert torch.equal(adjust_saturation(x, column(*FACTORS)), x)
    assert torch.equal(adjust_hue(x, column(*FACTORS)), x)
    assert torch.equal(random_grayscale(x, generator(), probability=1.0), x)
    out = jitter(x, 0, (0.4, 0.4, 0.4, 0.1))
    assert out.shape == x.shape
    assert not torch.equal(out, x)
