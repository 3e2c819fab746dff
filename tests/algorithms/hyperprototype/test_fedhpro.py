"""FedHPro as a whole (specification prototype, sections 1.6, 2.2, 2.6, 2.11, 2.12, 15)."""

import dataclasses

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.hyperprototype.fedhpro import HYPER, META, PRESENT, FedHPro
from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.algorithms.kit.linear_head import head_of
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.tensors import hash_tensors, num_bytes, prefixed, select
from fedcord.engine.population import Population
from tests import federation
from tests.algorithms.hyperprototype.small_runs import (
    BOTH,
    CLASSES,
    DIM,
    FEW,
    NONE,
    PLAIN,
    PRESETS,
    Run,
    client,
    fedhpro,
    visit,
)


@BOTH
@pytest.mark.parametrize("local", [LocalSGD(), LocalSGD(clip=1e9)], ids=["plain", "clipped"])
def test_2_12_11_without_weights_and_retraining_it_is_fedavg(
    values: dict[str, object], local: LocalSGD
) -> None:
    """15.2: bit for bit, with the same seeds."""
    people, clients = federation.population(values), (0, 1, 3)
    off = fedhpro(objective=PLAIN, retraining=NONE, local=local)
    one = Run(off, people, values, clients=clients)
    two = Run(FedAvg(local), people, values, clients=clients)
    assert hash_tensors(one.model) == hash_tensors(two.model)
    for on in (HyperObjective(contrast_weight=0.0), HyperObjective(alignment_weight=0.0)):
        other = Run(dataclasses.replace(off, objective=on), people, values, clients=clients)
        assert hash_tensors(other.model) != hash_tensors(two.model)


def test_2_12_12_one_client_alone_is_the_average() -> None:
    method = fedhpro(retraining=NONE)
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    assert hash_tensors(select(after.shared, "model")) == hash_tensors(
        select(update.tensors, "model")
    )


def test_2_7_d_retraining_replaces_the_classifier_and_nothing_else() -> None:
    method = fedhpro()
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    changed = {
        name
        for name, tensor in select(after.shared, "model").items()
        if not torch.equal(tensor, update.tensors[f"model.{name}"])
    }
    assert changed == {"linear_layers.1.weight", "linear_layers.1.bias"}
    wanted = FEW.train(after.private[META], env)
    assert torch.equal(head_of(after.shared, env).weight, wanted.weight)


def test_2_12_14_two_clients_average_to_neither() -> None:
    """Guards the aliasing of the public code, 2.9-A."""
    method, env = fedhpro(retraining=NONE), federation.env()
    state, people = method.init(env), federation.population()
    sent = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 3)
    ]
    models = [select(update.tensors, "model") for _, update in sent]
    after = select(method.aggregate(state, iter(sent), env).shared, "model")
    assert len({hash_tensors(model) for model in (after, *models)}) == 3


def test_15_7_a_mutated_update_does_not_reach_the_server() -> None:
    method = fedhpro()
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    before = hash_tensors(after.shared), hash_tensors(after.private)
    for tensor in update.tensors.values():
        tensor.zero_()
    assert (hash_tensors(after.shared), hash_tensors(after.private)) == before


@PRESETS
def test_2_12_15_training_leaves_hyper_prototypes_alone(method: FedHPro) -> None:
    env = federation.env()
    shared = method.init(env).shared
    before = shared[HYPER].clone()
    method.client_update(shared, {}, federation.population().client(0), env.at(0))
    assert torch.equal(shared[HYPER], before)
    assert not shared[HYPER].requires_grad


def test_2_12_15_meta_features_exist_with_retraining_only() -> None:
    with_it, without = Run(fedhpro()), Run(fedhpro(retraining=NONE))
    assert all(META in state.private for state in with_it.states)
    assert not torch.equal(with_it.states[0].private[META], with_it.states[-1].private[META])
    assert all(META not in state.private for state in without.states)


def test_2_2_private_stays_and_hyper_prototypes_are_sent() -> None:
    run = Run(fedhpro())
    assert run.states[0].shared[HYPER].shape == (CLASSES, 5, DIM)
    assert not any(name.startswith("meta") for name in run.states[-1].shared)


@PRESETS
def test_2_2_and_15_3_update_holds_rows_of_owned_classes_only(method: FedHPro) -> None:
    _, update, env = visit(method, client([2, 0, 2]))
    signal = "signal.prototype" if method.source == "prototypes" else "signal.gradient"
    shapes = {n: tuple(t.shape) for n, t in update.tensors.items() if n.startswith("signal.")}
    assert shapes == {
        PRESENT: (CLASSES,),
        signal: (2, DIM),
        "signal.head_weight": (2, CLASSES, DIM),
        "signal.head_bias": (2, CLASSES),
    }
    assert update.tensors[PRESENT].tolist() == [True, False, True]
    assert update.weight == 3
    assert set(update.tensors) == set(method.expected_update(method.init(env).shared, env))


@PRESETS
@pytest.mark.parametrize("has_retraining", [True, False])
def test_15_10_bytes_are_those_of_the_specification(method: FedHPro, has_retraining: bool) -> None:
    """Measured from the round loop's own count; presence and weight are stated extras."""
    own = dataclasses.replace(method, retraining=FEW if has_retraining else NONE)
    labels = [[0, 0, 1], [2], [0, 1, 2, 2]]
    people = Population.from_clients([client(each) for each in labels], client([0]).train)
    run = Run(own, people, rounds=1, clients=(0, 1, 2))
    model = num_bytes(prefixed("model", run.model)) // 4
    assert run.records[0].bytes_down == 3 * 4 * (model + CLASSES * 5 * DIM)
    floats, extra = 0, 3 * (CLASSES + 8)  # a byte per class, and the weight
    for each in labels:
        owned = len(set(each))
        floats += model + owned * DIM
        floats += owned * (CLASSES * DIM + CLASSES) if has_retraining else 0
    assert run.records[0].bytes_up == 4 * floats + extra


@PRESETS
def test_2_12_7_and_15_6_classes_of_unsampled_clients_stay(method: FedHPro) -> None:
    """Class 2 is held by client 1 alone, who is not visited."""
    people = Population.from_clients(
        [client([0, 0, 1, 1]), client([2, 2, 2]), client([0, 1, 1], 4)], client([0]).train
    )
    run = Run(method, people, clients=(0, 2))
    first, last = run.states[0], run.states[-1]
    assert torch.equal(first.shared[HYPER][2], last.shared[HYPER][2])
    assert torch.equal(first.private[META][2], last.private[META][2])
    for label in (0, 1):
        assert not torch.equal(first.shared[HYPER][label], last.shared[HYPER][label])


@PRESETS
def test_2_12_7_clients_that_lack_a_class_do_not_move_it(method: FedHPro) -> None:
    """With the received classifier, another client without class c changes nothing of U_c."""
    own = dataclasses.replace(
        method, matching=dataclasses.replace(method.matching, classifier="broadcast")
    )
    env = federation.env()
    state = own.init(env)
    sent = {
        k: own.client_update(state.shared, {}, data, env.at(k)).update
        for k, data in enumerate((client([0, 1, 2]), client([0, 1], 5)))
    }
    alone = own.aggregate(state, iter([(0, sent[0])]), env).shared[HYPER]
    both = own.aggregate(state, iter(sent.items()), env).shared[HYPER]
    torch.testing.assert_close(alone[2], both[2])
    assert not torch.allclose(alone[0], both[0])


@PRESETS
def test_15_5_empty_single_class_and_single_sample_clients(method: FedHPro) -> None:
    people = Population.from_clients(
        [client([]), client([1, 1, 1]), client([2]), client([0, 1, 2])],
        federation.population().test,
    )
    run = Run(method, people, clients=(1, 2, 3))
    assert run.records[-1].refused == ()
    for tensor in (*run.states[-1].shared.values(), *run.states[-1].private.values()):
        assert bool(torch.isfinite(tensor).all())
    for record in run.records:
        assert record.client_metrics[1]["margin"] == 0  # 2.11: one class


def test_1_6_an_empty_client_that_answers_counts_in_no_mean() -> None:
    method, env = fedhpro(), federation.env()
    state = method.init(env)
    updates = {
        k: method.client_update(state.shared, {}, data, env.at(k)).update
        for k, data in enumerate((client([0, 1, 2]), client([])))
    }
    assert updates[1].weight == 0
    one = method.aggregate(state, iter([(0, updates[0])]), env)
    two = method.aggregate(state, iter(updates.items()), env)
    assert hash_tensors(one.shared) == hash_tensors(two.shared)


@PRESETS
def test_15_8_equal_seeds_give_equal_runs(method: FedHPro) -> None:
    before = torch.get_rng_state()
    first, second = Run(method), Run(method)
    assert hash_tensors(first.states[-1].shared) == hash_tensors(second.states[-1].shared)
    assert [r.server_metrics for r in first.records] == [r.server_metrics for r in second.records]
    assert torch.equal(before, torch.get_rng_state())
