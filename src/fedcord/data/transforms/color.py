"""Changes of colour on [B, C, H, W] floats in [0, 1].

Grey images (C = 1) have neither saturation nor hue, so those steps leave them as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from fedcord.data.transforms.draws import choose_rows, uniform

LUMA = (0.2989, 0.587, 0.114)
"""Share of red, green and blue in grey."""

_HUGE = 1e38


def color_jitter(
    images: Tensor,
    generator: Generator,
    *,
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    probability: float = 1.0,
    shared: bool = False,
) -> Tensor:
    """Change the colours of each image by random strengths, in a random order.

    Args:
        images: [B, C, H, W] in [0, 1].
        generator: source of all draws.
        brightness: the factor is drawn from 1 ± this, not below 0.
        contrast: likewise.
        saturation: likewise.
        hue: the turn is drawn from ± this share of the colour circle, at most 0.5.
        probability: chance that an image is changed at all.
        shared: one draw for the whole batch.
    """
    count = len(images)
    chosen = uniform(generator, count, shared=shared) < probability
    order = uniform(generator, count, 4, shared=shared).argsort(1)
    numbers = uniform(generator, count, 4, shared=shared)
    spans = torch.tensor([brightness, contrast, saturation])
    low = (1 - spans).clamp(min=0)
    factors = low + (1 + spans - low) * numbers[:, :3]
    strengths = torch.cat([factors, hue * (2 * numbers[:, 3:] - 1)], 1)
    out = images
    for step in range(4):
        kind = torch.where(chosen, order[:, step], _NO_CHANGE)
        out = _apply_each(out, kind, strengths, (brightness, contrast, saturation, hue))
    return out


def random_grayscale(
    images: Tensor, generator: Generator, *, probability: float, shared: bool = False
) -> Tensor:
    """Take the colour out of each image with the given probability; the channels stay."""
    chosen = uniform(generator, len(images), shared=shared) < probability
    return choose_rows(chosen, gray(images).expand_as(images), images)


def gray(images: Tensor) -> Tensor:
    """[B, 3, H, W] to its grey values [B, 1, H, W]; grey images unchanged."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2]).unsqueeze(1)


def adjust_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply by `factor` [B, 1, 1, 1]; 1 changes nothing, 0 is black."""
    return (images * factor).clamp_(0, 1)


def adjust_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Move away from (factor > 1) or towards the image's mean grey value."""
    return _blend(images, gray(images).mean((1, 2, 3), keepdim=True), factor)


def adjust_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Move away from (factor > 1) or towards each pixel's grey value."""
    return images if images.shape[1] == 1 else _blend(images, gray(images), factor)


def adjust_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn every colour on the colour circle by `turn` [B, 1, 1, 1], 1 being a full turn.

    A turn keeps the largest and the smallest channel of a pixel as numbers, so the way through hue,
    saturation and value can be cut short: with the new hue h in [0, 6), each channel is
    min + (max - min) · w, where w is a trapezoid in h centred on that channel's colour.
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    span = high - low
    # 0 where the channel is the largest, else 1; arithmetic, because selecting by a mask of random
    # pixels is twenty times slower on a CPU
    not_red = (high - red).mul_(_HUGE).clamp_(0, 1)
    not_green = (high - green).mul_(_HUGE).clamp_(0, 1)
    from_green, from_blue = (blue - red).add_(span, alpha=2), (red - green).add_(span, alpha=4)
    h = torch.lerp(green - blue, torch.lerp(from_green, from_blue, not_green), not_red)
    h = h.div_(span.clamp(min=torch.finfo(images.dtype).tiny)).add_(6 * turn[:, 0])
    h.sub_(torch.floor(h / 6), alpha=6)
    weights = ((h - 3).abs_().sub_(1), 2 - (h - 2).abs_(), 2 - (h - 4).abs_())
    return torch.stack([torch.addcmul(low, span, w.clamp_(0, 1)) for w in weights], 1)


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return torch.lerp(other, images, factor).clamp_(0, 1)


def _apply_each(
    images: Tensor, kind: Tensor, strengths: Tensor, spans: tuple[float, ...]
) -> Tensor:
    """Apply to every image the change its `kind` [B] names, with its own strength [B, 4].

    Images of one kind are gathered, changed together and put back: copying whole rows is cheap,
    computing all four changes for every image would not be.
    """
    parts, places = [], []
    for number, change in enumerate((*_CHANGES, None)):
        where = (kind == number).nonzero()[:, 0]
        if len(where) == 0:
            continue
        part = images.index_select(0, where)
        if change is not None and spans[number] > 0:
            part = change(part, strengths[where, number, None, None, None])
        parts.append(part)
        places.append(where)
    if not parts:
        return images
    return torch.cat(parts).index_select(0, torch.cat(places).argsort())


_CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_hue,
)
_NO_CHANGE = len(_CHANGES)
