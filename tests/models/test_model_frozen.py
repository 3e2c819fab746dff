"""Frozen encoders: what travels, what they see, and where their weights come from."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import cast

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.core.errors import DataError
from fedcord.core.folders import data_folders
from fedcord.core.task import FixedNetwork, Network, tensors_of
from fedcord.core.tensors import hash_tensors, prefixed
from fedcord.models.encoders.efficientnet_lite import EfficientNetLite0, _translate
from fedcord.models.frozen import Encoder, FrozenNetwork
from fedcord.models.initial import materialise
from fedcord.models.inverted_residual import SameConv2d
from fedcord.models.options import Inputs
from fedcord.models.registry import network_factory
from fedcord.models.weights import check_name_hash, find_weights


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def frozen(
    spec: str, shape: tuple[int, ...] = (3, 16, 16), seed: int = 0, **more: tuple[float, ...]
) -> nn.Module:
    factory = network_factory(
        spec,
        kind="image",
        input_shape=shape,
        num_classes=4,
        mean=more.get("mean", ()),
        std=more.get("std", ()),
    )
    return factory(generator(seed))


def features(network: nn.Module, x: Tensor) -> Tensor:
    return cast(Network, network).features(x)


@pytest.mark.parametrize("spec", ["frozen:pixels", "frozen:random-conv,filters=8"])
def test_only_the_head_travels(spec: str) -> None:
    network = frozen(spec)
    assert set(tensors_of(network)) == {"head.weight", "head.bias"}
    assert {name for name, _ in network.named_parameters()} == {"head.weight", "head.bias"}
    x = torch.randn(2, 3, 16, 16, generator=generator(), requires_grad=True)
    assert not features(network, x).requires_grad
    assert network(x).requires_grad


def test_fingerprints_tell_encoders_apart_and_not_their_heads() -> None:
    def fingerprint(spec: str, seed: int = 0) -> str:
        return cast(FixedNetwork, frozen(spec, seed=seed)).fingerprint

    plain = fingerprint("frozen:random-conv,filters=8")
    assert plain == fingerprint("frozen:random-conv,filters=8", seed=1)  # another head
    others = [
        fingerprint("frozen:random-conv,filters=8,seed=1"),
        fingerprint("frozen:random-conv,filters=8,size=8"),
        fingerprint("frozen:random-conv,filters=9"),
        fingerprint("frozen:pixels"),
    ]
    assert len({plain, *others}) == 5


def test_the_identity_of_stored_features_is_a_hash_of_these_words_in_this_order() -> None:
    """Another order would make every stored feature useless."""
    network = frozen("frozen:pixels")
    assert isinstance(network, FrozenNetwork)
    words = f"{nn.Flatten()}|{hash_tensors({})}|768|None|None|()|()|{torch.__version__}|as stored"
    assert network.identity("as stored") == hashlib.sha256(words.encode()).hexdigest()


def test_pixels_are_the_input() -> None:
    x = torch.randn(2, 3, 16, 16, generator=generator())
    assert torch.equal(features(frozen("frozen:pixels"), x), x.flatten(1))
    small = F.interpolate(x, size=(8, 8), mode="bilinear", antialias=True).flatten(1)
    assert torch.equal(features(frozen("frozen:pixels,size=8"), x), small)


def test_random_filters_depend_on_the_seed_key_alone() -> None:
    x = torch.randn(2, 3, 16, 16, generator=generator())
    first = features(frozen("frozen:random-conv,filters=8", seed=1), x)
    assert first.shape == (2, 32)
    assert torch.equal(first, features(frozen("frozen:random-conv,filters=8", seed=2), x))
    assert not torch.equal(first, features(frozen("frozen:random-conv,filters=8,seed=1"), x))


def test_encoder_sees_its_own_normalisation_size_and_channels() -> None:
    """Data normalised one way reach the encoder normalised its own way."""
    encoder = Encoder(
        nn.Flatten(), 48, channels=3, size=4, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)
    )
    pixels = torch.rand(2, 1, 8, 8, generator=generator())
    inputs = Inputs("image", (1, 8, 8), 2, mean=(0.1,), std=(0.3,))
    network = materialise(lambda: FrozenNetwork(encoder, inputs), generator())
    seen = network.features((pixels - 0.1) / 0.3).view(2, 3, 4, 4)
    wanted = F.interpolate((pixels - 0.5) / 0.25, size=(4, 4), mode="bilinear", antialias=True)
    torch.testing.assert_close(seen, wanted.expand(-1, 3, -1, -1), atol=1e-5, rtol=0)


def test_one_number_normalises_all_channels_for_an_encoder_too() -> None:
    encoder = Encoder(nn.Flatten(), 12, channels=3, mean=(0.2, 0.3, 0.4), std=(0.5, 0.5, 0.5))
    pixels = torch.rand(2, 3, 2, 2, generator=generator())
    inputs = Inputs("image", (3, 2, 2), 2, mean=(0.1,), std=(0.3,))
    network = materialise(lambda: FrozenNetwork(encoder, inputs), generator())
    seen = network.features((pixels - 0.1) / 0.3).view(2, 3, 2, 2)
    wanted = (pixels - torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1)) / 0.5
    torch.testing.assert_close(seen, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("prefix", ["", "model"])
def test_file_holds_a_trained_body(tmp_path: Path, prefix: str) -> None:
    spec = "resnet10,width=4"
    factory = network_factory(spec, kind="image", input_shape=(3, 16, 16), num_classes=9)
    trained = factory(generator(3))
    trained(torch.randn(4, 3, 16, 16, generator=generator()))  # running statistics count
    tensors = tensors_of(trained)
    path = tmp_path / "body.safetensors"
    safetensors.torch.save_file(prefixed(prefix, tensors) if prefix else tensors, path)
    network = frozen(f"frozen:file={path},arch=resnet10,width=4")
    assert set(tensors_of(network)) == {"head.weight", "head.bias"}
    x = torch.randn(2, 3, 16, 16, generator=generator(1))
    with torch.no_grad():
        torch.testing.assert_close(features(network, x), features(trained.eval(), x))
    grey = frozen(f"frozen:file={path},arch=resnet10,width=4", (1, 16, 16))
    with torch.no_grad():
        wanted = features(trained, x[:, :1].expand(-1, 3, -1, -1))
    torch.testing.assert_close(features(grey, x[:, :1]), wanted)


def test_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    factory = network_factory("cnn", kind="image", input_shape=(1, 16, 16), num_classes=9)
    path = tmp_path / "cnn.safetensors"
    safetensors.torch.save_file(tensors_of(factory(generator())), path)
    with pytest.raises(DataError, match=r"does not hold the weights of resnet10.* is missing"):
        frozen(f"frozen:file={path},arch=resnet10", (1, 16, 16))
    with pytest.raises(DataError, match=r"hidden\.weight has shape"):
        frozen(f"frozen:file={path},arch=cnn", (1, 32, 32))
    with pytest.raises(DataError, match="reads 1 channels, the data have 3"):
        frozen(f"frozen:file={path},arch=cnn", (3, 16, 16))
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        frozen(f"frozen:file={path},arch=cnn,seed=1", (1, 16, 16))


@pytest.mark.parametrize(("size", "stride", "kernel"), [(7, 2, 3), (8, 2, 3), (8, 2, 5), (9, 1, 5)])
def test_same_padding_puts_the_odd_line_last(size: int, stride: int, kernel: int) -> None:
    layer = SameConv2d(1, 1, kernel, stride=stride, bias=False)
    x = torch.randn(1, 1, size, size, generator=generator())
    out = layer(x)
    places = -(-size // stride)
    assert out.shape == (1, 1, places, places)
    before = max((places - 1) * stride + kernel - size, 0) // 2
    wanted = torch.zeros(places, places)
    for row in range(places):
        for column in range(places):
            for i in range(kernel):
                for j in range(kernel):
                    y, z = row * stride + i - before, column * stride + j - before
                    if 0 <= y < size and 0 <= z < size:
                        wanted[row, column] += x[0, 0, y, z] * layer.weight[0, 0, i, j].detach()
    torch.testing.assert_close(out[0, 0].detach(), wanted, atol=1e-5, rtol=1e-4)


def test_efficientnet_has_the_published_size() -> None:
    network = materialise(EfficientNetLite0, None)
    assert sum(p.numel() for p in network.parameters()) == 4_652_008 - 1281 * 1000
    assert _translate("_blocks.1._bn0.weight") == "blocks.1.expand_norm.weight"
    assert _translate("_bn0.bias") == "stem_norm.bias"


def test_search_path_is_like_that_of_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDCORD_DATA", os.pathsep.join(["/one", "", str(tmp_path)]))
    assert data_folders() == (Path("/one"), tmp_path)
    assert data_folders(["/two"]) == (Path("/two"),)
    folder = tmp_path / "efficientnet-lite0"
    folder.mkdir()
    assert find_weights("efficientnet-lite0") is None
    (folder / "b.pth").touch()
    assert find_weights("efficientnet-lite0") == folder / "b.pth"
    (folder / "a.safetensors").touch()
    assert find_weights("efficientnet-lite0") == folder / "a.safetensors"
    monkeypatch.delenv("FEDCORD_DATA")
    assert data_folders() == (Path("~/.cache/fedcord/data").expanduser(),)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "name-57934424.pth"
    path.write_bytes(b"half a file")
    with pytest.raises(DataError, match="its name says 57934424; the file is damaged"):
        check_name_hash(path)
    plain = tmp_path / "efficientnet-lite0.safetensors"
    plain.write_bytes(b"no hash in its name")
    check_name_hash(plain)


def test_efficientnet_features_of_a_fixed_image() -> None:
    shared = Path(__file__).parents[3] / "shared" / "data"
    folders = [*data_folders(), Path("~/.cache/fedcord/data").expanduser(), shared]
    if find_weights("efficientnet-lite0", folders) is None:
        pytest.skip("the EfficientNet-Lite0 weights are not on the data search path")
    factory = network_factory(
        "frozen:efficientnet-lite0,size=64",
        kind="image",
        input_shape=(3, 32, 32),
        num_classes=2,
        data_dirs=folders,
    )
    ramp = torch.arange(32) / 31
    image = torch.stack([ramp.expand(32, 32), ramp.expand(32, 32).T, (ramp * ramp[:, None])])
    found = features(factory(generator()), image[None])[0]
    assert found.shape == (1280,)
    wanted = torch.tensor(EXPECTED)
    weighted = found @ (torch.arange(1280) / 1280)
    summary = torch.stack([found.sum(), found.square().sum(), weighted, found[2]])
    torch.testing.assert_close(summary, wanted, atol=1e-3, rtol=1e-3)


EXPECTED = [584.792, 2030.484, 288.07, 2.157]
"""Sum, sum of squares, weighted sum and one feature, computed once with the PyPI package
efficientnet_lite_pytorch 0.1.0 on the same weights, so that our network is held to another's."""
