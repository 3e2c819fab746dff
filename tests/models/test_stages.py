"""What networks show of the stages under their features."""

from __future__ import annotations

import re
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from fedcord.core.task import LayeredNetwork, Task, tensors_of
from fedcord.models.registry import MODELS, network_factory

IMAGE = (3, 32, 32)
STAGES = {
    "logistic": (),
    "mlp:20": (),
    "mlp:20-10-5": ("hidden1", "hidden2"),
    "cnn,width=8,fc=32": ("map1", "map2"),
    "resnet10,width=8": ("stem", "stage1", "stage2", "stage3", "stage4"),
    "mobilenet,width=0.25": ("stem", *(f"stage{n}" for n in range(1, 8)), "last"),
    "frozen:random-conv,filters=16": (),
}


def make(spec: str) -> nn.Module:
    factory = network_factory(spec, kind="image", input_shape=IMAGE, num_classes=4)
    return factory(torch.Generator().manual_seed(0)).eval()


def images(count: int = 3) -> Tensor:
    return torch.randn(count, *IMAGE, generator=torch.Generator().manual_seed(1))


def a_task(network: nn.Module, shape: tuple[int, ...] = IMAGE, is_text: bool = False) -> Task:
    return Task(4, shape, [lambda _: network], lambda x: x.long() if is_text else x.float())


@pytest.mark.parametrize("spec", STAGES)
def test_every_network_names_its_stages_and_shows_their_maps_beside_the_same_features(
    spec: str,
) -> None:
    network = make(spec)
    assert isinstance(network, LayeredNetwork)
    assert network.stage_names == STAGES[spec]
    features, maps = network.features_and_maps(images())
    assert torch.equal(features, network.features(images()))
    assert len(maps) == len(STAGES[spec])
    shapes = a_task(network).stages()
    assert shapes == {
        name: tuple(map_.shape[1:]) for name, map_ in zip(STAGES[spec], maps, strict=True)
    }
    said = re.findall(r"`(\w+)`", MODELS[spec.partition(":")[0].partition(",")[0]].stages)
    assert not network.stage_names or (said[0], said[-1]) in {
        (network.stage_names[0], network.stage_names[-1]),
        (network.stage_names[0], network.stage_names[1]),  # `map1`, `map2` …
    }


@torch.no_grad()
def test_maps_are_what_the_next_layer_reads() -> None:
    x = images()
    mlp = make("mlp:20-10-5")
    first, second, third, _ = cast("nn.ModuleList", mlp.get_submodule("linear_layers"))
    features, (one, two) = cast(LayeredNetwork, mlp).features_and_maps(x)
    assert torch.equal(one, first(x.flatten(1)).clamp(min=0))
    assert torch.equal(two, second(one).clamp(min=0))
    assert torch.equal(features, third(two).clamp(min=0))
    cnn = make("cnn,width=8,fc=32")
    features, (one, two) = cast(LayeredNetwork, cnn).features_and_maps(x)
    conv = cnn.get_submodule("convolutions.1")
    torch.testing.assert_close(two, torch.max_pool2d(conv(one).clamp(min=0), 2))
    torch.testing.assert_close(features, cnn.get_submodule("hidden")(two.flatten(1)).clamp(min=0))
    resnet = make("resnet10,width=8")
    features, maps = cast(LayeredNetwork, resnet).features_and_maps(x)
    assert all(float(map_.min()) == 0 for map_ in maps)
    torch.testing.assert_close(features, maps[-1].mean((2, 3)))
    mobilenet = make("mobilenet,width=0.25")
    features, (stem, *bottlenecks, last) = cast(LayeredNetwork, mobilenet).features_and_maps(x)
    assert float(stem.min()) == float(last.min()) == 0
    assert all(float(map_.min()) < 0 for map_ in bottlenecks)  # linear, as they are read
    torch.testing.assert_close(features, last.mean((2, 3)))


def test_a_text_network_shows_its_mean_embedding() -> None:
    factory = network_factory("text", kind="text", input_shape=(6,), num_classes=4, vocabulary=50)
    network = factory(torch.Generator().manual_seed(0))
    assert isinstance(network, LayeredNetwork)
    tokens = torch.tensor([[3, 7, 7, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    features, (mean,) = network.features_and_maps(tokens)
    assert torch.equal(mean, network.get_submodule("embedding")(tokens))
    assert torch.equal(features, network.features(tokens))
    assert a_task(network, (6,), is_text=True).stages() == {"embedding": (32,)}


def test_asking_for_shapes_changes_nothing_and_a_held_network_shows_its_own_maps() -> None:
    network = make("resnet10,width=8").train()
    before = tensors_of(network)
    task = a_task(network)
    assert task.stages()["stage4"] == (64, 4, 4)
    assert network.training
    assert all(torch.equal(before[name], now) for name, now in tensors_of(network).items())
    held = task.held_network(before)
    network.get_parameter("stem.weight").data.zero_()
    wanted = make("resnet10,width=8")
    assert held.stage_names == STAGES["resnet10,width=8"]
    for found, map_ in zip(
        held.features_and_maps(images())[1],
        cast(LayeredNetwork, wanted).features_and_maps(images())[1],
        strict=True,
    ):
        assert torch.equal(found, map_)


def test_a_network_from_elsewhere_has_none() -> None:
    assert a_task(nn.Linear(2, 2), (2,)).stages() == {}
