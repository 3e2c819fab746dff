"""Named views and plain preparation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedcord.core.errors import ConfigError
from fedcord.data.transforms import augmentations, normalize, prepare_fn, to_unit

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
NAMES = ("standard", "crop", "flip", "simclr", "simclr-batch")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stored(count: int = 16, channels: int = 3, side: int = 16) -> Tensor:
    shape = (count, channels, side, side)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(9))


def test_prepared_image_is_normalised_once() -> None:
    x = stored(2)
    out = prepare_fn("image", MEAN, STD)(x)
    assert out.dtype == torch.float32
    for channel in range(3):
        pixel = x[1, channel, 3, 5].item() / 255
        wanted = (pixel - MEAN[channel]) / STD[channel]
        assert out[1, channel, 3, 5].item() == pytest.approx(wanted, abs=1e-6)


def test_prepare_leaves_its_input_alone() -> None:
    for x in (stored(2), to_unit(stored(2)), torch.ones(2, 4)):
        before = x.clone()
        kind = "image" if x.dim() == 4 else "vector"
        out = prepare_fn(kind)(x)
        if kind == "image":
            out.zero_()
        assert torch.equal(x, before)


def test_vectors_and_tokens() -> None:
    x = torch.tensor([[1.0, 4.0], [3.0, 8.0]])
    assert torch.equal(prepare_fn("vector")(x), x)
    wanted = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    assert torch.equal(prepare_fn("vector", [2, 6], [1, 2])(x), wanted)
    tokens = torch.tensor([[3, 0, 2]])
    assert torch.equal(prepare_fn("text")(tokens), tokens)
    assert augmentations("vector") == {}
    assert augmentations("text") == {}


def test_one_number_normalises_all_channels() -> None:
    x = to_unit(stored(2))
    assert torch.equal(normalize(x, [0.5], [0.5]), (x - 0.5) / 0.5)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'image'"):
        prepare_fn("imag")
    with pytest.raises(ConfigError, match="above 0"):
        augmentations("image", MEAN, (0.2, 0.0, 0.1))


def test_names_are_the_agreed_ones() -> None:
    assert tuple(augmentations("image")) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 8), (3, 32), (1, 28)])
def test_view_is_a_normalised_image(name: str, channels: int, side: int) -> None:
    x = stored(8, channels, side)
    view = augmentations("image", MEAN[:channels], STD[:channels])[name](x, generator())
    assert view.shape == x.shape
    assert view.dtype == torch.float32
    mean = torch.tensor(MEAN[:channels]).view(-1, 1, 1)
    std = torch.tensor(STD[:channels]).view(-1, 1, 1)
    unit = view * std + mean
    assert unit.min() >= -1e-5
    assert unit.max() <= 1 + 1e-5
    assert not torch.allclose(view, prepare_fn("image", MEAN[:channels], STD[:channels])(x))


@pytest.mark.parametrize("name", NAMES)
def test_view_comes_from_the_generator_alone(name: str) -> None:
    x = stored()
    before, state = x.clone(), torch.get_rng_state()
    view = augmentations("image", MEAN, STD)[name]
    first = view(x, generator(1))
    assert torch.equal(first, view(x, generator(1)))
    assert not torch.equal(first, view(x, generator(2)))
    assert torch.equal(x, before)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", NAMES)
def test_view_of_a_sample_ignores_the_others(name: str) -> None:
    x = stored()
    other = x.clone()
    other[3:] = 255 - other[3:]
    view = augmentations("image", MEAN, STD)[name]
    same, changed = view(x, generator(1)), view(other, generator(1))
    torch.testing.assert_close(same[:3], changed[:3], atol=1e-6, rtol=0)
    assert not torch.allclose(same[3:], changed[3:])


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_changed_apart_unless_asked_oneshot_2_2(name: str) -> None:
    x = stored(1).expand(16, -1, -1, -1)
    view = augmentations("image", MEAN, STD)[name](x, generator(1))
    is_alike = torch.allclose(view, view[:1].expand_as(view), atol=1e-5)
    assert is_alike == (name == "simclr-batch")


def test_standard_shifts_by_an_eighth_prototype_12_3() -> None:
    x = torch.zeros(4000, 1, 32, 32, dtype=torch.uint8)
    x[:, :, 16, 16] = 255
    view = augmentations("image")["standard"](x, generator())
    rows = view.amax((1, 3)).argmax(1)
    assert rows.min() == 12
    assert rows.max() == 20
    assert (view.sum((1, 2, 3)) == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_empty_batch(name: str) -> None:
    view = augmentations("image", MEAN, STD)[name](stored(0), generator())
    assert view.shape == (0, 3, 16, 16)
