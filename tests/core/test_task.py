import dataclasses
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.task import FixedNetwork, HeldNetwork, Task, load_into, tensors_of


def _task() -> Task:
    def make(width: int):  # type: ignore[no-untyped-def]
        return lambda generator: nn.Linear(2, width)

    return Task(2, (2,), [make(2), make(3)], prepare=lambda inputs: inputs)


def test_tensors_of_gives_copies() -> None:
    network = nn.Linear(2, 2)
    taken = tensors_of(network)
    with torch.no_grad():
        network.weight.zero_()
    assert taken["weight"].abs().sum() > 0


def test_network_with_reuses_one_module_per_architecture_and_overwrites_it() -> None:
    task = _task()
    one = {"weight": torch.ones(2, 2), "bias": torch.ones(2)}
    first = task.network_with(one)
    second = task.network_with({name: t * 2 for name, t in one.items()})
    assert first is second
    assert torch.equal(second.state_dict()["weight"], torch.full((2, 2), 2.0))
    assert not second.training


def test_clients_take_architectures_in_turn() -> None:
    task = _task()
    networks = [task.scratch_network(client) for client in (None, 0, 1, 2, 3)]
    assert [len(network.state_dict()["bias"]) for network in networks] == [2, 2, 3, 2, 3]


def test_fixed_networks_are_made_once_by_name_and_only_where_the_task_can() -> None:
    made = []

    def make(name: str) -> FixedNetwork:
        made.append(name)
        return cast(FixedNetwork, nn.Linear(2, 2))

    task = dataclasses.replace(_task(), make_fixed=make)
    assert task.fixed_network("a") is task.fixed_network("a") is not task.fixed_network("b")
    assert made == ["a", "b"]
    with pytest.raises(ConfigError, match="network 'a': this task can make no fixed networks"):
        _task().fixed_network("a")


def test_load_into_refuses_other_names_and_shapes() -> None:
    network = nn.Linear(2, 2)
    with pytest.raises(ProtocolError, match="differ in bias"):
        load_into(network, {"weight": torch.ones(2, 2)})
    with pytest.raises(ProtocolError, match=r"weight has shape \[3, 2\], the network needs"):
        load_into(network, {"weight": torch.ones(3, 2), "bias": torch.ones(2)})


class Normed(nn.Module):
    """Batch normalisation before a head."""

    feature_dim = 2

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(2), nn.Linear(2, 3)

    def features(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.norm(inputs)
        return out

    def classify(self, features: Tensor) -> Tensor:
        out: Tensor = self.head(features)
        return out

    def forward(self, inputs: Tensor) -> Tensor:
        return self.classify(self.features(inputs))


INPUTS = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 0.5]])


def _drawn(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(t.shape, generator=generator) + 0.5 if t.is_floating_point() else t.clone()
        for name, t in Normed().state_dict().items()
    }


def test_held_networks_live_side_by_side_and_answer_as_networks_that_were_loaded() -> None:
    task = Task(3, (2,), [lambda generator: Normed()], prepare=lambda inputs: inputs)
    models = [_drawn(1), _drawn(2)]
    held = [task.held_network(model) for model in models]
    for own, model in zip(held, models, strict=True):
        network = Normed().eval()
        network.load_state_dict(model)
        task.scratch_network().train()  # what others do with it makes no difference
        assert own.feature_dim == 2
        assert torch.equal(own.features(INPUTS), network.features(INPUTS))
        assert torch.equal(own.classify(INPUTS), network.classify(INPUTS))
        assert torch.equal(own(INPUTS), network(INPUTS))
        assert not own(INPUTS).requires_grad


def test_held_networks_own_their_tensors() -> None:
    task = Task(3, (2,), [lambda generator: Normed()], prepare=lambda inputs: inputs)
    model = _drawn(1)
    held = task.held_network(model)
    before = held(INPUTS)
    for tensor in (*model.values(), *task.scratch_network().state_dict().values()):
        tensor.zero_()
    assert torch.equal(held(INPUTS), before)


def test_held_networks_keep_the_layout_of_the_module() -> None:
    network = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain = tensors_of(network)
    assert plain["weight"].is_contiguous()
    held = HeldNetwork(network, plain)
    weight = held._tensors["network.weight"]
    assert weight.is_contiguous(memory_format=torch.channels_last)


def test_a_held_network_can_go_by_the_batch_and_forgets_it() -> None:
    model = _drawn(1)
    held = HeldNetwork(Normed(), model, training=True)
    spread = INPUTS.var(0, unbiased=False)
    wanted = (INPUTS - INPUTS.mean(0)) / (spread + 1e-5).sqrt()
    wanted = wanted * model["norm.weight"] + model["norm.bias"]
    torch.testing.assert_close(held.features(INPUTS), wanted)
    for name, tensor in model.items():
        assert torch.equal(held._tensors[f"network.{name}"], tensor)


def test_a_held_network_may_lack_the_part_that_is_not_asked_and_no_other() -> None:
    model = _drawn(1)
    encoder = {name: t for name, t in model.items() if not name.startswith("head.")}
    whole = HeldNetwork(Normed(), model)
    assert torch.equal(
        HeldNetwork(Normed(), encoder, "head.").features(INPUTS), whole.features(INPUTS)
    )
    with pytest.raises(ProtocolError, match=r"differ in head.bias, head.weight"):
        HeldNetwork(Normed(), encoder)
    with pytest.raises(ProtocolError, match=r"differ in norm.bias"):
        HeldNetwork(Normed(), {n: t for n, t in encoder.items() if n != "norm.bias"}, "head.")
    with pytest.raises(ProtocolError, match=r"differ in head.extra"):
        HeldNetwork(Normed(), {**encoder, "head.extra": torch.ones(1)}, "head.")
    with pytest.raises(ProtocolError, match=r"norm.bias has shape \[3\], the network needs \[2\]"):
        HeldNetwork(Normed(), {**model, "norm.bias": torch.ones(3)})
