"""Normalisation layers of convolutional networks, and the one batch that breaks them."""

from __future__ import annotations

from torch import Tensor, nn

from fedcord.core.errors import ConfigError


def make_norm(norm: str, channels: int, groups: int) -> nn.Module:
    """A layer over [B, `channels`, H, W].

    Args:
        norm: "batch", or "group", which keeps no statistics and so has nothing to drift between
            clients.
        channels: number of channels.
        groups: groups of "group"; must divide `channels`.
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if channels % groups:
        raise ConfigError(
            f"groups={groups} does not divide {channels} channels; "
            "choose a width that is a multiple of the number of groups."
        )
    return nn.GroupNorm(groups, channels)


def check_batch(images: Tensor, stride: int, has_batch_norm: bool) -> None:
    """Refuse the batch for which batch normalisation has no variance: one value per channel.

    One image is enough as long as the deepest map has more than one place.

    Args:
        images: [B, C, H, W], a training batch.
        stride: how much smaller the deepest map is.
        has_batch_norm: networks with other normalisation accept every batch.
    """
    height, width = (-(-side // stride) for side in images.shape[-2:])
    if has_batch_norm and images.shape[0] * height * width == 1:
        raise ConfigError(
            f"a training batch of one {images.shape[-2]}×{images.shape[-1]} image leaves batch "
            "normalisation one value per channel; use norm=group, larger images, or batches of at "
            "least two."
        )
