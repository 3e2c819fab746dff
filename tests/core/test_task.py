import dataclasses
from typing import cast

import pytest
import torch
from torch import nn

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.task import FixedNetwork, Task, load_into, tensors_of


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
