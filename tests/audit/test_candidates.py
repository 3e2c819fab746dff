"""Candidates must not be told apart by anything but training."""

from __future__ import annotations

import torch

from fedcord.audit.candidates import COMMON, OWN, candidates_by_client
from fedcord.core.examples import ClientData, Examples
from fedcord.engine.population import Population


def some(counts: list[int], seed: int) -> Examples:
    """So many samples of each class."""
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    draw = torch.Generator().manual_seed(seed)
    return Examples(torch.randn(len(labels), 2, generator=draw), labels)


def test_both_halves_have_the_same_classes_and_nobody_trained_on_the_second() -> None:
    nothing = some([0, 0], 0)
    train, test = some([40, 10], 1), some([25, 60], 2)
    copies = Examples(train.inputs[:5], train.labels[:5])  # in the test set by mistake
    test = Examples(
        torch.cat([test.inputs, copies.inputs]), torch.cat([test.labels, copies.labels])
    )
    own = ClientData(some([30, 30], 3), some([5, 0], 4), some([30, 25], 5))
    small = ClientData(some([4, 4], 6), nothing, nothing)
    people = Population.from_clients([ClientData(train, nothing, nothing), own, small], test)
    found = candidates_by_client(people, seed=0)
    assert found.keys() == {0, 1}  # nothing can be said about eight samples
    assert (found[0].origin, found[1].origin) == (COMMON, OWN)
    for client, wanted in ((0, [25, 10]), (1, [30, 25])):
        one = found[client]
        for half in (one.is_member, ~one.is_member):
            assert one.examples.labels[half].bincount().tolist() == wanted
        trained = {tuple(row) for row in people.client(client).train.inputs.tolist()}
        everyone = {
            tuple(row) for c in people.clients for row in people.client(c).train.inputs.tolist()
        }
        members = {tuple(row) for row in one.examples.inputs[one.is_member].tolist()}
        others = {tuple(row) for row in one.examples.inputs[~one.is_member].tolist()}
        assert members < trained
        assert not others & everyone
        assert len(members) + len(one.rest) == len(trained)


def test_every_candidate_is_in_half_of_the_shadows_and_classes_stay() -> None:
    people = Population.from_clients(
        [ClientData(some([20, 10], 1), some([0, 0], 0), some([20, 10], 2))], some([0, 0], 0)
    )
    one = candidates_by_client(people, seed=0)[0]
    first, second = one.halves(0, 0)
    assert torch.equal(first, ~second)
    assert one.examples.labels[first].bincount().tolist() == [20, 10]
    data = one.having(first).train
    assert data.labels.bincount().tolist() == [20, 10]
    other, _ = one.halves(0, 1)
    assert not torch.equal(first, other)
