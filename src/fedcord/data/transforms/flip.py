"""Mirrored images."""

from __future__ import annotations

from torch import Generator, Tensor

from fedcord.data.transforms.draws import choose_rows, uniform


def random_flip(
    images: Tensor, generator: Generator, *, probability: float = 0.5, shared: bool = False
) -> Tensor:
    """Mirror each image [B, C, H, W] left to right with the given probability."""
    chosen = uniform(generator, len(images), shared=shared) < probability
    return choose_rows(chosen, images.flip(3), images)
