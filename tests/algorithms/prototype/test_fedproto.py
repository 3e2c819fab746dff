"""Invariants of FedProto (specification prototype, section 7)."""

import pytest
import torch

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.algorithms.prototype.fedproto import FedProto
from fedcord.algorithms.prototype.local_work import current_network, pulled
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.core.task import tensors_of
from fedcord.core.tensors import select
from tests import federation
from tests.algorithms.prototype import parties

LOCAL = LocalSGD(lr=0.1, batch_size=8)


def test_7_8_one_clients_prototypes_are_its_class_means() -> None:
    people = parties.population([(9, 4, 0)])
    done = parties.run(FedProto(local=LOCAL), people, rounds=1)
    env, train = federation.env().at(0), people.client(0).train
    network = current_network(done.state.shared, done.reached.gather_memory()[0], env)
    features = network.features(train.inputs)  # type: ignore[operator]
    known = Prototypes.of(done.state.shared)
    assert known.held.tolist() == [True, True, False]
    for label in (0, 1):
        wanted = features[train.labels == label].mean(0)
        assert torch.allclose(known.values[label], wanted, atol=1e-5)


def test_7_8_a_client_without_a_class_leaves_its_prototype() -> None:
    algorithm, people = FedProto(local=LOCAL), parties.population([(9, 4, 3), (0, 5, 5)])
    env = federation.env()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, people, [0, 1])
    alone = algorithm.aggregate(state, iter([(0, sent[0])]), env)
    both = algorithm.aggregate(state, iter(sent.items()), env)
    one, two = Prototypes.of(alone.shared), Prototypes.of(both.shared)
    assert torch.equal(one.values[0], two.values[0])
    assert not torch.allclose(one.values[1], two.values[1])


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_7_4_the_stated_weights(weighting: str) -> None:
    algorithm = FedProto(local=LOCAL, weighting=weighting)
    people, env = parties.population([(9, 0, 1), (3, 6, 0)]), federation.env()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, people, [0, 1])
    tables = [Prototypes.of(u.tensors).values for u in sent.values()]
    after = Prototypes.of(algorithm.aggregate(state, iter(sent.items()), env).shared).values
    shares = (9 / 12, 3 / 12) if weighting == "samples" else (0.5, 0.5)
    assert torch.allclose(after[0], shares[0] * tables[0][0] + shares[1] * tables[1][0], atol=1e-6)
    assert torch.equal(after[1], tables[1][1])
    assert torch.equal(after[2], tables[0][2])


def test_7_3_the_loss_against_a_loop_and_no_gradient_to_targets() -> None:
    env, people = federation.env(), parties.population()
    table = Prototypes(torch.randn(3, 16), torch.tensor([True, True, False]))
    table.values.requires_grad_()
    loss = pulled(table, 0.7, env)
    assert loss is not None
    network = current_network({}, {}, env.at(0))
    batch = people.client(3).train
    features = network.features(batch.inputs)  # type: ignore[operator]
    total = torch.nn.functional.cross_entropy(network(batch.inputs), batch.labels)
    for row, label in zip(features, batch.labels.tolist(), strict=True):
        if label != 2:
            total = total + 0.7 * (row - table.values[label]).square().sum() / features.numel()
    found = loss(network, batch.inputs, batch.labels)
    assert torch.allclose(found, total, atol=1e-6)
    found.backward()
    assert table.values.grad is None


def test_7_3_the_first_round_is_cross_entropy_alone() -> None:
    env = federation.env()
    assert pulled(Prototypes.none(3, 16), 5.0, env) is None
    free = parties.run(FedProto(local=LOCAL, prototype_weight=0.0), rounds=1)
    held = parties.run(FedProto(local=LOCAL, prototype_weight=9.0), rounds=1)
    assert torch.equal(free.state.shared["proto.mean"], held.state.shared["proto.mean"])


def test_7_3_the_pull_draws_features_to_the_prototypes() -> None:
    def distance(weight: float) -> float:
        done = parties.run(FedProto(local=LOCAL, prototype_weight=weight), rounds=6)
        return float(done.state.private["metric.prototype.intra_class"])

    assert distance(1.0) < 0.6 * distance(0.0)


def test_prototypes_are_those_of_the_model_the_client_keeps() -> None:
    """A pass after training in evaluation mode, not features seen on the way."""
    algorithm, people = FedProto(local=LOCAL), parties.population()
    env = federation.env()
    state = algorithm.init(env)
    result = algorithm.client_update(state.shared, {}, people.client(0), env.at(0))
    network = env.task.network_with(select(result.memory, MODEL), 0)
    train = people.client(0).train
    features = network.features(train.inputs)  # type: ignore[operator]
    wanted = torch.stack([features[train.labels == c].mean(0) for c in (0, 1)])
    assert torch.allclose(result.update.tensors["proto.mean"], wanted, atol=1e-5)
    assert select(result.memory, MODEL).keys() == tensors_of(network).keys()


def test_7_6_all_known_classes_compete_in_a_test() -> None:
    """A client without class 2 still answers class 2 by the others' prototype."""
    done = parties.run(FedProto(local=LOCAL), rounds=8)
    test = parties.population().test
    env = federation.env().at(0)
    scores = (
        FedProto()
        .predictor(done.state.model, done.reached.gather_memory()[0], env)
        .scores(test.inputs)
    )
    hits = scores.argmax(1) == test.labels
    assert hits[test.labels == 2].float().mean() > 0.5
