"""Views for prediction: which there are, and that they show what they say."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from fedcord.core.errors import ConfigError
from fedcord.core.params import Bounds
from fedcord.data.transforms import NUM_VIEWS, fixed_views, prepare_fn
from fedcord.experiment.config import RunConfig

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
STORED = torch.randint(256, (2, 3, 6, 5), generator=torch.Generator().manual_seed(3)).byte()


def _moved(stored: Tensor, down: int, right: int) -> Tensor:
    """Pixel by pixel, black where nothing comes from."""
    out = torch.zeros_like(stored)
    height, width = stored.shape[2:]
    for row in range(height):
        for column in range(width):
            y, x = row - down, column - right
            if 0 <= y < height and 0 <= x < width:
                out[:, :, row, column] = stored[:, :, y, x]
    return out


def test_views_of_prepared_images_are_prepared_views_of_stored_ones() -> None:
    prepare = prepare_fn("image", MEAN, STD)
    corners = [(-1, -1), (-1, 1), (1, -1), (1, 1)]
    mirrored = STORED.flip(3)
    wanted = [mirrored, *(_moved(STORED, *c) for c in corners)]
    wanted += [_moved(mirrored, *c) for c in corners]
    views = fixed_views("mirror+shift", "image", MEAN, STD)
    prepared = prepare(STORED)
    for view, stored in zip(views, wanted, strict=True):
        torch.testing.assert_close(view(prepared), prepare(stored), rtol=0, atol=1e-6)
    shifts = fixed_views("shift", "image", MEAN, STD)
    for view, stored in zip(shifts, wanted[1:5], strict=True):
        torch.testing.assert_close(view(prepared), prepare(stored), rtol=0, atol=1e-6)
    (mirror,) = fixed_views("mirror", "image", MEAN, STD)
    assert torch.equal(mirror(prepared), prepare(mirrored))


def test_larger_images_move_further() -> None:
    image = torch.zeros(1, 1, 32, 40)
    image[0, 0, 10, 10] = 1.0
    *_, last = fixed_views("shift", "image")
    assert last(image)[0, 0, 12, 12] == 1.0


def test_there_are_as_many_as_is_said_and_settings_know_them_all() -> None:
    for name, count in NUM_VIEWS.items():
        assert len(fixed_views(name, "image", MEAN, STD)) == count - 1
    assert fixed_views(None, "text") == ()
    (field,) = [f for f in dataclasses.fields(RunConfig) if f.name == "test_views"]
    bounds = field.metadata["bounds"]
    assert isinstance(bounds, Bounds)
    assert bounds.choices == tuple(NUM_VIEWS)


@pytest.mark.parametrize("kind", ["vector", "text"])
def test_other_examples_have_no_views(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"of images only.*kind {kind}; leave test_views out"):
        fixed_views("mirror", kind)
