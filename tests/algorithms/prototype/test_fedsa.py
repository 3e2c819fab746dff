"""Invariants of FedSA (specification prototype, section 10)."""

import math

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.fedsa import ANCHORS, GAP, FedSA, first_anchors, mean_gap
from fedcord.algorithms.prototype.local_work import current_network
from fedcord.algorithms.prototype.prototypes import Prototypes
from tests import federation
from tests.algorithms.prototype import parties

LOCAL = LocalSGD(lr=0.1, batch_size=8)


def test_10_2_anchors_are_drawn_through_two_normalised_layers() -> None:
    """Against torch's own layers holding the same draws."""
    env = federation.env()
    found = first_anchors(5, 6, env)
    generator, bound = env.generator("anchors"), 1 / math.sqrt(6)
    points = torch.randn(5, 6, generator=generator)
    for _ in range(2):
        layer, norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)
        with torch.no_grad():
            layer.weight.copy_((2 * torch.rand(6, 6, generator=generator) - 1) * bound)
            layer.bias.copy_((2 * torch.rand(6, generator=generator) - 1) * bound)
        points = norm(layer(points)).relu()
    assert torch.allclose(found, points.detach(), atol=1e-6)
    assert not found.requires_grad


def test_10_8_anchors_stay_non_negative_and_move_little() -> None:
    done = parties.run(FedSA(local=LOCAL, anchor_momentum=0.9), rounds=3)
    for before, after in zip(done.states, done.states[1:], strict=False):
        old, new = before.shared[ANCHORS], after.shared[ANCHORS]
        assert bool((new >= 0).all())
        target = Prototypes.of(after.result).values  # everybody takes part: this round's means
        moved, way = (new - old).norm(dim=1), (target - old).norm(dim=1)
        assert torch.allclose(moved, 0.1 * way, rtol=1e-3)


def test_10_8_an_unseen_class_keeps_its_anchor() -> None:
    done = parties.run(FedSA(local=LOCAL), parties.population([(9, 3, 0), (4, 2, 0)]), rounds=2)
    first, last = done.states[0].shared[ANCHORS], done.state.shared[ANCHORS]
    assert torch.equal(first[2], last[2])
    assert not torch.equal(first[0], last[0])
    assert Prototypes.of(done.state.result).held.tolist() == [True, True, False]


def _terms(anchors: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor, object]:
    algorithm = FedSA(local=LOCAL, anchor_weight=3.0, contrast_weight=0.5, calibration_weight=2.0)
    loss = algorithm.local_loss(anchors, margin)
    assert loss is not None
    network = current_network({}, {}, federation.env().at(0))
    batch = parties.population().client(3).train
    found = loss(network, batch.inputs, batch.labels)
    z = network.features(batch.inputs)  # type: ignore[operator]
    wanted = F.cross_entropy(network(batch.inputs), batch.labels)
    wanted = wanted + 3.0 * (z - anchors[batch.labels]).square().mean()
    for row, label in zip(z, batch.labels.tolist(), strict=True):
        apart = torch.stack(
            [(row - anchors[c]).norm() + (margin if c == label else 0) for c in range(3)]
        )
        wanted = wanted + 0.5 * (apart[label] + torch.logsumexp(-apart, 0)) / len(z)
    for label in range(3):
        scores = network.classify(anchors[label : label + 1])  # type: ignore[operator]
        wanted = wanted + 2.0 * F.cross_entropy(scores, torch.tensor([label])) / 3
    return found, wanted, network


@pytest.mark.parametrize("margin", [0.0, 1.3])
def test_10_3_the_loss_against_its_terms_written_out(margin: float) -> None:
    found, wanted, _ = _terms(first_anchors(3, 16, federation.env()), margin)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_10_8_calibration_reaches_the_classifier_alone() -> None:
    algorithm = FedSA(local=LOCAL, anchor_weight=0.0, contrast_weight=0.0, calibration_weight=1.0)
    anchors = first_anchors(3, 16, federation.env())
    loss = algorithm.local_loss(anchors, 0.0)
    assert loss is not None
    network = current_network({}, {}, federation.env().at(0))
    batch = parties.population().client(0).train
    parameters = list(network.parameters())
    with_it = torch.autograd.grad(loss(network, batch.inputs, batch.labels), parameters)
    plain = F.cross_entropy(network(batch.inputs), batch.labels)
    without = torch.autograd.grad(plain, parameters)
    same = [torch.equal(a, b) for a, b in zip(with_it, without, strict=True)]
    assert same == [True, True, False, False]  # weight and bias of two layers


def test_10_3_the_margin_is_the_larger_of_the_anchors_and_the_clients_own() -> None:
    """A client remembers the gap of what it sent; with one class it has none."""
    people, env = parties.population([(9, 3, 2), (5, 0, 0)]), federation.env()
    algorithm = FedSA(local=LOCAL)
    state = algorithm.init(env)
    result = algorithm.client_update(state.shared, {}, people.client(0), env.at(0))
    rows = result.update.tensors["proto.mean"]
    nearest = [min(float((rows[i] - rows[j]).norm()) for j in range(3) if j != i) for i in range(3)]
    assert float(result.memory[GAP]) == pytest.approx(sum(nearest) / 3, rel=1e-5)
    alone = algorithm.client_update(state.shared, {}, people.client(1), env.at(1))
    assert float(alone.memory[GAP]) == 0
    model = {name: t for name, t in result.memory.items() if name != GAP}
    again = [
        algorithm.client_update(
            state.shared, {**model, GAP: torch.tensor(gap)}, people.client(0), env.at(0)
        ).update.tensors["proto.mean"]
        for gap in (0.0, mean_gap(state.shared[ANCHORS]), 50.0)
    ]
    assert torch.equal(again[0], again[1])
    assert not torch.equal(again[0], again[2])


def test_10_6_answers_come_from_prototypes_not_from_anchors() -> None:
    done = parties.run(FedSA(local=LOCAL), rounds=3)
    assert set(done.state.shared) == {ANCHORS}
    known = FedSA().known(done.state.model)
    assert torch.equal(known.values, Prototypes.of(done.state.result).values)


def test_10_7_one_class_is_refused() -> None:
    task = federation.task({**federation.VECTOR, "num_classes": 1})
    (error,) = FedSA(local=LOCAL).review(task).errors
    assert "anchors of 1 class" in error
