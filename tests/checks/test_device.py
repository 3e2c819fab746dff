"""Every verb of every registered algorithm with its networks on a device that is not the CPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.checks.subject import SEED, Subject
from fedcord.checks.tiny_task import SHAPES, tiny_task
from fedcord.checks.walk import Walk, walk
from fedcord.core.contract import Algorithm, ClientResult, Env, Review
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors
from tests.checks.registered import QUICK, registered
from tests.fake_device import MixedDevicesError, fake_device, is_there

PREDICTOR = "predictor"
"""Scores may be where the inputs are; whoever asked fetches them."""


def walked(algorithm: Algorithm, task_name: str) -> Walk | Review:
    """All verbs on the stand-in for a device, or why the task does not fit."""
    tiny = tiny_task(task_name)
    with fake_device() as there:
        task = dataclasses.replace(tiny.task(), device=there)
        review = algorithm.review(task)
        if review.errors:
            return review
        env = Env(task, SEED, num_rounds=algorithm.traits.rounds or 2)
        return walk(algorithm, tiny.population, env)


@pytest.mark.parametrize("task_name", SHAPES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_mixes_devices_and_what_leaves_a_verb_is_on_the_cpu(
    name: str, task_name: str
) -> None:
    found = walked(registered(name)[0], task_name)
    if isinstance(found, Review):
        return  # it says so itself, before anything is written
    for place, tensor in found.tensors().items():
        assert place.endswith(PREDICTOR) or not is_there(tensor), f"{place} is on the device"


@dataclass(frozen=True)
class Careless(FedAvg):
    """Makes a tensor wherever PyTorch makes it."""

    mistake: str = "mix"

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        there = torch.zeros(3, device=env.task.device)
        if self.mistake == "mix":
            there + torch.ones(3)
        elif self.mistake == "generator":
            there.normal_(generator=env.generator("careless"))
        elif self.mistake == "float64":
            there.double()
        elif self.mistake == "numpy":
            there.numpy()
        return dataclasses.replace(result, memory={"kept": there})


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("mix", r"add of a tensor on the device and one on the CPU \(\[3\]\)"),
        ("generator", "a CPU generator cannot fill"),
        ("float64", "float64 on the device"),
    ],
)
def test_a_careless_algorithm_is_caught(mistake: str, words: str) -> None:
    with pytest.raises(MixedDevicesError, match=words):
        walked(Careless(local=QUICK, mistake=mistake), "images")


def test_memory_that_stays_on_the_device_is_seen() -> None:
    found = walked(Careless(local=QUICK, mistake="none"), "images")
    assert isinstance(found, Walk)
    assert any(is_there(tensor) for place, tensor in found.tensors().items() if "kept" in place)


def test_numpy_cannot_read_the_device() -> None:
    with pytest.raises((RuntimeError, TypeError), match=r"numpy|meta|subclass"):
        walked(Careless(local=QUICK, mistake="numpy"), "images")


def test_the_stand_in_allows_what_a_gpu_allows() -> None:
    with fake_device() as there:
        rows = torch.arange(6.0, device=there).view(3, 2)
        assert is_there(rows * torch.tensor(2.0))  # a number without dimensions
        assert rows[torch.tensor([2, 0])].tolist() == [[4, 5], [0, 1]]  # CPU indices
        layer = nn.Linear(2, 1).to(there)
        layer(rows).sum().backward()
        assert layer.weight.grad is not None
        assert is_there(layer.weight.grad)
        assert layer.weight.grad.cpu().tolist() == [[6.0, 9.0]]
        back: Tensor = rows.cpu()
        assert not is_there(back)
        assert back.sum().item() == 15.0


@pytest.mark.parametrize("name", ["fedavg", "apfl"])
def test_a_whole_run_on_the_device_gives_what_it_gives_on_the_cpu(name: str) -> None:
    """The same operations in the same order: what moves between devices loses no bit."""
    algorithm, expectations = registered(name)
    on_cpu = Subject(algorithm, tiny_task("images"), expectations)
    on_device = Subject(algorithm, tiny_task("images"), expectations)
    with fake_device() as there:
        object.__setattr__(on_device, "task", dataclasses.replace(on_device.task, device=there))
        found = on_device.run()
    wanted = on_cpu.run()
    assert found.checkpoint.hash == wanted.checkpoint.hash
    assert found.own_tests == wanted.own_tests
    assert found.accuracy == wanted.accuracy
