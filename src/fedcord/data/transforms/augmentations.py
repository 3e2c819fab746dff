"""The random views algorithms ask for by name.

Every view takes stored bytes, works on [0, 1], and normalises once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from fedcord.data.transforms.color import color_jitter, random_grayscale
from fedcord.data.transforms.geometry import random_crop, random_flip, random_resized_crop
from fedcord.data.transforms.prepare import normalize_, prepare_fn, to_unit

Change = Callable[[Tensor, Generator], Tensor]


@dataclass(frozen=True)
class Augmentation:
    """A change of stored images followed by normalisation."""

    change: Change
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, stored: Tensor, generator: Generator) -> Tensor:
        """[B, C, H, W] stored images to randomly changed [B, C, H, W] network inputs."""
        changed = self.change(stored, generator)
        unit = changed if changed.is_floating_point() else to_unit(changed)
        return normalize_(unit, self.mean, self.std)


def augmentations(
    kind: str, mean: Sequence[float] = (), std: Sequence[float] = ()
) -> Mapping[str, Callable[[Tensor, Generator], Tensor]]:
    """The views of one kind of input by name; only images have any.

    - `crop`: shifted by up to an eighth of the side (4 of 32 pixels), black outside;
    - `flip`: mirrored with probability 1/2;
    - `standard`: both;
    - `simclr`: enlarged crop, mirror, colours, grey as FAFI has them, a draw per sample;
    - `simclr-batch`: the same with one draw for the whole batch, for parity with published code.

    Args:
        kind: "image", "vector" or "text".
        mean: per channel, as for `prepare_fn`.
        std: per channel, as for `prepare_fn`.
    """
    prepare_fn(kind, mean, std)  # the same checks
    if kind != "image":
        return {}
    changes: dict[str, Change] = {
        "standard": standard,
        "crop": crop,
        "flip": random_flip,
        "simclr": simclr,
        "simclr-batch": simclr_shared,
    }
    numbers = tuple(map(float, mean)), tuple(map(float, std))
    return {name: Augmentation(change, *numbers) for name, change in changes.items()}


def crop(images: Tensor, generator: Generator) -> Tensor:
    """Shift by up to an eighth of the shorter side, at least one pixel."""
    return random_crop(images, generator, padding=max(1, min(images.shape[2:]) // 8))


def standard(images: Tensor, generator: Generator) -> Tensor:
    """Shift, then mirror."""
    return random_flip(crop(images, generator), generator)


def simclr(images: Tensor, generator: Generator, *, shared: bool = False) -> Tensor:
    """Stored images to views in [0, 1] with the strengths of FAFI's released code."""
    x = random_flip(images, generator, shared=shared)  # on bytes; flipping first changes no chance
    x = random_resized_crop(to_unit(x), generator, scale=(0.2, 1.0), shared=shared)
    x = color_jitter(
        x,
        generator,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        probability=0.8,
        shared=shared,
    )
    return random_grayscale(x, generator, probability=0.2, shared=shared)


def simclr_shared(images: Tensor, generator: Generator) -> Tensor:
    """`simclr` with one draw for the whole batch."""
    return simclr(images, generator, shared=True)
