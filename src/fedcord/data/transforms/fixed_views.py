"""Views of an image over which a prediction is averaged; nothing about them is random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from fedcord.core.errors import ConfigError
from fedcord.core.task import View
from fedcord.data.transforms.prepare import Prepare

MIRROR, SHIFT, BOTH = "mirror", "shift", "mirror+shift"
NUM_VIEWS: Mapping[str, int] = MappingProxyType({MIRROR: 2, SHIFT: 5, BOTH: 10})
"""By name, how many views there are, the image itself among them."""
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))
"""Steps down and to the right."""


def mirrored(images: Tensor) -> Tensor:
    """[B, C, H, W] left to right."""
    return images.flip(3)


@dataclass(frozen=True)
class Shifted:
    """Prepared images moved towards a corner by a sixteenth of the shorter side.

    That is half as far as training's `crop` goes at most, 2 of 32 pixels and at least one. What
    comes in from outside is black, as it is there.

    Attributes:
        down: -1 for up, 1 for down.
        right: -1 for left, 1 for right.
        prepare: says what black is once prepared.
        is_mirrored: whether images are mirrored first.
    """

    down: int
    right: int
    prepare: Prepare
    is_mirrored: bool = False

    def __call__(self, images: Tensor) -> Tensor:
        """[B, C, H, W] to the same shape."""
        height, width = images.shape[2:]
        far = max(1, min(height, width) // 16)
        source = mirrored(images) if self.is_mirrored else images
        moved = source.roll((far * self.down, far * self.right), (2, 3))
        rows = _inside(height, far * self.down, images.device)
        columns = _inside(width, far * self.right, images.device)
        black = self.prepare(images.new_zeros(1, images.shape[1], 1, 1))
        return torch.where(rows[:, None] & columns, moved, black)


def _inside(size: int, moved: int, device: torch.device) -> Tensor:
    """[size] whether a pixel comes from the image where all have moved along."""
    source = torch.arange(size, device=device) - moved
    return (source >= 0) & (source < size)


def fixed_views(
    name: str | None, kind: str, mean: Sequence[float] = (), std: Sequence[float] = ()
) -> tuple[View, ...]:
    """The views of prepared inputs beside these themselves.

    Args:
        name: one of `NUM_VIEWS`, or None for no other view.
        kind: "image", "vector" or "text".
        mean: per channel, as for `prepare_fn`.
        std: per channel, as for `prepare_fn`.
    """
    if name is None:
        return ()
    if kind != "image":
        raise ConfigError(
            f"test_views = '{name}': there are such views of images only, and examples of this "
            f"data are of the kind {kind}; leave test_views out."
        )
    if name == MIRROR:
        return (mirrored,)
    prepare = Prepare(kind, tuple(mean), tuple(std))
    shifts = tuple(Shifted(*corner, prepare) for corner in CORNERS)
    if name == SHIFT:
        return shifts
    both = tuple(Shifted(*corner, prepare, is_mirrored=True) for corner in CORNERS)
    return (mirrored, *shifts, *both)
