"""Fusing models by matching their neurons: the order is found, functions are kept."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.fedavg_oneshot import FedAvgOneShot
from fedcord.algorithms.oneshot.baselines.otfusion import OTFusion, matched_to, reordered
from fedcord.algorithms.oneshot.baselines.permutations import neuron_spaces
from fedcord.core.contract import Update
from fedcord.core.errors import ConfigError
from fedcord.core.task import tensors_of
from fedcord.core.tensors import select
from fedcord.models.registry import network_factory
from tests.federation import env, population

MODELS = ["mlp:10-7", "cnn:4-6,kernel=3,fc=9", "resnet10,width=4", "resnet18,width=4"]


def image_network(spec: str, seed: int) -> nn.Module:
    """A network whose batch-norm tensors are no longer all alike."""
    factory = network_factory(
        spec, kind="image", input_shape=(1, 16, 16), num_classes=3, mean=(0.5,), std=(0.5,)
    )
    generator = torch.Generator().manual_seed(seed)
    network = factory(generator)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if ("norm" in name or "shortcut.1" in name) and tensor.is_floating_point():
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    return network.eval()


def shuffled(network: nn.Module, seed: int) -> dict[str, Tensor]:
    """The network's tensors with the neurons of every free space in random order."""
    out, generator = tensors_of(network), torch.Generator().manual_seed(seed)
    for space in neuron_spaces(network):
        if not space.is_fixed:
            order = torch.randperm(space.size, generator=generator)
            for use in space.uses:
                out[use.tensor] = reordered(out[use.tensor], order, use)
    return out


@pytest.mark.parametrize("spec", MODELS)
def test_reordered_neurons_compute_the_same_function(spec: str) -> None:
    network = image_network(spec, 0)
    other = image_network(spec, 1)
    mixed = shuffled(network, 3)
    assert any(not torch.equal(mixed[n], t) for n, t in tensors_of(network).items())
    other.load_state_dict(mixed)
    x = torch.randn(4, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        torch.testing.assert_close(other(x), network(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spec", MODELS)
def test_finds_the_order_of_a_shuffled_copy_exactly(spec: str) -> None:
    network = image_network(spec, 0)
    target = tensors_of(network)
    found = matched_to(target, shuffled(network, 3), neuron_spaces(network))
    assert all(torch.equal(found[name], tensor) for name, tensor in target.items())


@pytest.mark.parametrize("spec", MODELS)
def test_matching_brings_models_closer_and_keeps_their_function(spec: str) -> None:
    network, other = image_network(spec, 0), image_network(spec, 1)
    target, given = tensors_of(network), tensors_of(other)
    found = matched_to(target, given, neuron_spaces(network))
    x = torch.randn(4, 1, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = other(x)
        other.load_state_dict(found)
        torch.testing.assert_close(other(x), wanted, rtol=1e-3, atol=1e-3)
    first = next(name for name in target if name.endswith("weight"))
    before = float((given[first] - target[first]).square().sum())
    assert float((found[first] - target[first]).square().sum()) < before


def test_assignment_is_the_best_of_all_orders() -> None:
    factory = network_factory("mlp:5", kind="vector", input_shape=(8,), num_classes=3)
    one, two = (tensors_of(factory(torch.Generator().manual_seed(s))) for s in (0, 1))
    network = factory(None)
    found = matched_to(one, two, neuron_spaces(network))

    def cost(order: tuple[int, ...]) -> float:
        total = 0.0
        for i, j in enumerate(order):
            gap = one["linear_layers.0.weight"][i] - two["linear_layers.0.weight"][j]
            bias = one["linear_layers.0.bias"][i] - two["linear_layers.0.bias"][j]
            total += float((gap * gap).sum() + bias * bias)
        return total

    best = min(itertools.permutations(range(5)), key=cost)
    assert torch.equal(found["linear_layers.0.weight"], two["linear_layers.0.weight"][list(best)])
    assert torch.equal(
        found["linear_layers.1.weight"], two["linear_layers.1.weight"][:, list(best)]
    )
    assert torch.equal(found["linear_layers.1.bias"], two["linear_layers.1.bias"])


def test_of_shuffled_copies_is_the_model_itself() -> None:
    here = env(rounds=1)
    method = OTFusion(weighting="uniform")
    state = method.init(here)
    network = here.task.initial_network(torch.Generator().manual_seed(5))
    uploads = [tensors_of(network), shuffled(network, 1), shuffled(network, 2)]
    sent = [
        (k, Update({f"model.{n}": t for n, t in model.items()}, weight=10.0 - k))
        for k, model in enumerate(uploads)
    ]
    fused = select(method.aggregate(state, iter(sent), here).result, "fused")
    for name, tensor in uploads[0].items():
        torch.testing.assert_close(fused[name], tensor)
    mean = FedAvgOneShot().aggregate(state, iter(sent), here)
    plain = select(mean.result, "fused")
    assert any(not torch.allclose(plain[n], t, atol=1e-2) for n, t in uploads[0].items())


def test_keeps_the_order_where_it_matters() -> None:
    grouped = network_factory(
        "resnet10,width=8,norm=group",
        kind="image",
        input_shape=(1, 16, 16),
        num_classes=3,
        mean=(0.5,),
        std=(0.5,),
    )(torch.Generator().manual_seed(0))
    assert all(space.is_fixed for space in neuron_spaces(grouped))
    spaces = neuron_spaces(image_network("mlp:10-7", 0))
    assert [(s.size, s.is_fixed) for s in spaces] == [(10, False), (7, False), (3, True)]


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.head(inputs if inputs.sum() > 0 else -inputs)
        return out


def test_says_which_networks_it_cannot_follow() -> None:
    with pytest.raises(
        ConfigError, match=r"that of Branching cannot .*choose mlp, cnn or a resnet"
    ):
        neuron_spaces(Branching())


def test_own_starts_differ_and_common_ones_do_not() -> None:
    here, people = env(rounds=1), population()
    still = LocalSGD(steps=1, lr=1e-12)
    for start, equal in (("common", True), ("own", False)):
        method = OTFusion(local=still, start=start)
        shared = method.init(here).shared
        first, second = (
            select(
                method.client_update(shared, {}, people.client(k), here.at(k)).update.tensors,
                "model",
            )
            for k in (0, 1)
        )
        name = "linear_layers.0.weight"
        assert torch.allclose(first[name], second[name], atol=1e-6) is equal
