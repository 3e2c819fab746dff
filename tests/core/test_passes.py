"""Passes are counted where they happen, once each, and by nobody's arithmetic."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from fedcord.algorithms.analytic.features import in_full_batches
from fedcord.core.passes import PassCounter, Passes
from fedcord.core.task import Task
from fedcord.report.cost import EXPLANATION


@pytest.fixture
def task() -> Task:
    def network(_: object) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))

    return Task(3, (4,), [network], prepare=lambda inputs: inputs)


def counts(passes: Passes) -> tuple[int, int]:
    return passes.forward, passes.backward


def test_rows_are_counted_forward_and_backward(task: Task) -> None:
    network, inputs = task.fresh_network(), torch.ones(7, 4)
    network(inputs)  # nobody keeps an account
    with task.passes.account() as own:
        network(torch.cat([inputs, inputs])).sum().backward()
        with torch.no_grad():
            network(inputs)
        network(inputs)  # without a backward pass
    network(inputs)
    assert counts(own) == (28, 14)
    assert own.cpu_seconds > 0


def test_what_fills_a_batch_up_is_counted_as_it_is_computed_and_reports_say_so(task: Task) -> None:
    network = task.fresh_network()
    for samples, passes in ((3, 64), (46, 64), (65, 128)):
        with task.passes.account() as own:
            in_full_batches(network, 3, torch.ones(samples, 4))
        assert counts(own) == (passes, 0)
    assert "batches that are filled up to one size with what fills them" in EXPLANATION


def test_an_account_within_another_is_not_part_of_it(task: Task) -> None:
    network = task.fresh_network()
    with task.passes.account() as outer:
        network(torch.ones(2, 4))
        with task.passes.account() as inner:
            network(torch.ones(3, 4))
        network(torch.ones(2, 4))
    assert (counts(outer), counts(inner)) == ((4, 0), (3, 0))


def test_what_is_done_for_one_of_several_clients_is_that_ones(task: Task) -> None:
    network = task.fresh_network()
    with task.passes.of(4):
        network(torch.ones(9, 4))
    assert task.passes.apart == {}  # nobody keeps an account
    with task.passes.account() as shared:
        network(torch.ones(2, 4))
        for client, rows in ((4, 3), (5, 1), (4, 2)):
            with task.passes.of(client):
                network(torch.ones(rows, 4)).sum().backward()
    assert counts(shared) == (2, 0)
    assert {client: counts(own) for client, own in task.passes.apart.items()} == {
        4: (5, 5),
        5: (1, 1),
    }


def test_models_and_examples_that_are_mapped_over_are_all_counted(task: Task) -> None:
    network, inputs = task.scratch_network(), torch.ones(7, 4)
    weights = {name: own.detach() for name, own in network.named_parameters()}
    stacked = {name: torch.stack([own] * 3) for name, own in weights.items()}

    def loss(own: dict[str, torch.Tensor], one: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(network, own, (one[None],))
        return found.sum()

    with task.passes.account() as models:
        torch.func.vmap(lambda own: torch.func.functional_call(network, own, (inputs,)))(stacked)
    with task.passes.account() as examples:
        torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, inputs)
    assert (counts(models), counts(examples)) == ((21, 0), (7, 7))


def test_held_networks_and_copies_tell_the_same_counter(task: Task) -> None:
    network = task.fresh_network()
    with task.passes.account() as own:
        copy.deepcopy(network)(torch.ones(2, 4))
        task.held_network(network.state_dict())(torch.ones(3, 4))
    assert counts(own) == (5, 0)


def test_counting_changes_no_bit(task: Task) -> None:
    plain, watched = nn.Linear(4, 3), nn.Linear(4, 3)
    watched.load_state_dict(plain.state_dict())
    counter = PassCounter()
    counter.watch(watched)
    with counter.account():
        for network in (plain, watched):
            network(torch.linspace(0, 1, 8).reshape(2, 4)).square().sum().backward()
    assert torch.equal(plain.weight.grad, watched.weight.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [None, [1], [1, -2], [1, 2.5], [1, "2"]])
def test_what_is_no_count_is_refused(values: object) -> None:
    with pytest.raises(ValueError, match="are not"):
        Passes.from_plain(values)
    assert Passes.from_plain(Passes(1, 2, 0.5).plain()) == Passes(1, 2)
