"""Invariants of FedGMKD (specification prototype, section 9)."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.prototype.discrepancy import (
    aware_weights,
    knowledge_discrepancy,
    label_discrepancy,
)
from fedcord.algorithms.prototype.fedgmkd import PRESENT, SOFT, FedGMKD, Knowledge
from fedcord.algorithms.prototype.local_work import current_network
from fedcord.algorithms.prototype.mixture import mixture_mean
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.core.tensors import Tensors, select
from tests import federation
from tests.algorithms.prototype import parties

LOCAL = LocalSGD(lr=0.1, batch_size=8)


def _knowledge(use_gmm: bool, client: int = 0) -> Knowledge:
    algorithm, env = FedGMKD(local=LOCAL, use_gmm=use_gmm), federation.env().at(client)
    network = current_network({}, {}, env)
    return algorithm.local_knowledge(network, parties.population().client(client), env)


def test_9_8_the_mixture_gives_the_class_mean() -> None:
    plain, fitted = _knowledge(False), _knowledge(True)
    assert torch.allclose(plain.prototypes.values, fitted.prototypes.values, atol=1e-4)
    assert plain.prototypes.values[:2].abs().max() > 0.1  # not zeros of a standardised space


@pytest.mark.parametrize("num", [1, 2, 5, 40])
def test_9_8_a_mixture_of_any_number_of_points_has_their_mean(num: int) -> None:
    points = 3 + 2 * torch.randn(num, 4, generator=torch.Generator().manual_seed(num))
    points[:, 3] = 7  # no variance
    found = mixture_mean(points, torch.Generator().manual_seed(0))
    assert torch.allclose(found, points.mean(0), atol=1e-4)


def test_9_2_soft_predictions_are_class_means_at_the_temperature() -> None:
    known, env = _knowledge(False), federation.env().at(0)
    train = parties.population().client(0).train
    network = current_network({}, {}, env)
    soft = (network(train.inputs) / 0.6).softmax(1)
    for label in (0, 1):
        wanted = soft[train.labels == label].mean(0)
        assert torch.allclose(known.soft.values[label], wanted, atol=1e-6)
    assert known.prototypes.present.tolist() == [20, 10, 0]


@pytest.mark.parametrize("exchange", ["prototypes", "both"])
@pytest.mark.parametrize("values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"])
def test_9_2_knowledge_sent_is_that_of_the_model_just_trained(
    exchange: str, values: dict[str, object]
) -> None:
    """Two rounds; class means and soft predictions of the trained model, example by example."""
    algorithm, env = FedGMKD(exchange, local=LOCAL), federation.env(values)
    data = federation.population(values).client(0)
    shared = algorithm.init(env).shared
    memory: Tensors = {}
    for round_ in range(2):
        here = dataclasses.replace(env, round=round_).at(0)
        found = algorithm.client_update(shared, memory, data, here)
        sent = Knowledge.of(found.update.tensors)
        trained = select({**found.memory, **found.update.tensors}, "model")
        network = env.task.network_with(trained, 0).eval()
        for label in range(3):
            own = data.train.inputs[data.train.labels == label]
            assert int(sent.prototypes.present[label]) == len(own)
            with torch.no_grad():
                alone = [env.task.prepare(one[None]) for one in own]
                features = torch.cat([features_of(network, one) for one in alone])
                soft = torch.cat([(network(one) / 0.6).softmax(1) for one in alone])
            assert torch.allclose(sent.prototypes.values[label], features.mean(0), atol=1e-5)
            assert torch.allclose(sent.soft.values[label], soft.mean(0), atol=1e-5)
        state = algorithm.aggregate(algorithm.init(env), iter([(0, found.update)]), env)
        shared, memory = state.shared, found.memory


def test_9_2_knowledge_is_used_in_the_round_after_the_training_it_is_of() -> None:
    """What clients of round 2 learn from is the mean of what round 1's models know."""
    algorithm, people, env = FedGMKD(local=LOCAL), parties.population(), federation.env()
    done = parties.run(algorithm, people, rounds=1)
    total, owners = torch.zeros(3, 16), torch.zeros(3, 1)
    for k in range(4):
        network = env.task.network_with(select(done.reached.gather_memory()[k], "model"), k).eval()
        own = people.client(k).train
        for label in own.labels.unique().tolist():
            with torch.no_grad():
                total[label] += features_of(network, own.inputs[own.labels == label]).mean(0)
            owners[label] += 1
    known = Knowledge.of(done.state.shared).prototypes
    assert torch.allclose(known.values, total / owners, atol=1e-5)


def test_9_3_the_loss_against_its_terms_written_out() -> None:
    generator = torch.Generator().manual_seed(5)
    held = torch.tensor([True, False, True])
    known = Knowledge(
        Prototypes(torch.rand(3, 16, generator=generator) * held[:, None], held),
        Prototypes(torch.rand(3, 3, generator=generator).softmax(1) * held[:, None], held),
    )
    algorithm = FedGMKD(local=LOCAL, distillation_weight=0.8, prototype_weight=0.3)
    env = federation.env().at(0)
    loss, network = algorithm.local_loss(known, env), current_network({}, {}, env)
    assert loss is not None
    batch = parties.population().client(3).train
    z = network.features(batch.inputs)  # type: ignore[operator]
    wanted = F.cross_entropy(network(batch.inputs), batch.labels)
    for row, label in zip(z, batch.labels.tolist(), strict=True):
        if held[label]:
            wanted = (
                wanted + 0.3 * (row - known.prototypes.values[label]).square().sum() / z.numel()
            )
    for label in (0, 2):
        scores = network.classify(known.prototypes.values[label])  # type: ignore[operator]
        guess = (scores / 0.6).softmax(0)
        for place in range(3):
            target = known.soft.values[label, place]
            wanted = wanted + 0.8 * target * (target.log() - guess[place].log()) / (2 * 3)
    found = loss(network, batch.inputs, batch.labels)
    assert torch.allclose(found, wanted, atol=1e-6)


def test_9_3_distillation_reaches_the_classifier_alone() -> None:
    held = torch.ones(3, dtype=torch.bool)
    known = Knowledge(Prototypes(torch.rand(3, 16), held), Prototypes(torch.eye(3), held))
    algorithm = FedGMKD(local=LOCAL, distillation_weight=1.0, prototype_weight=0.0)
    env = federation.env().at(0)
    loss, network = algorithm.local_loss(known, env), current_network({}, {}, env)
    assert loss is not None
    batch, parameters = parties.population().client(0).train, list(network.parameters())
    found = torch.autograd.grad(loss(network, batch.inputs, batch.labels), parameters)
    plain = torch.autograd.grad(F.cross_entropy(network(batch.inputs), batch.labels), parameters)
    same = [torch.allclose(a, b, atol=1e-7) for a, b in zip(found, plain, strict=True)]
    assert same == [True, True, False, False]


def test_9_8_label_discrepancy_of_uniform_and_single_class_clients() -> None:
    found = label_discrepancy(torch.tensor([[5, 5, 5, 5], [9, 0, 0, 0]]))
    assert found.tolist() == pytest.approx([0.0, math.sqrt(1 - 1 / 4)])


@pytest.mark.parametrize("raw", [False, True])
def test_9_8_weights_are_a_distribution_and_sizes_when_switched_off(raw: bool) -> None:
    sizes = torch.tensor([30.0, 5.0, 65.0], dtype=torch.float64)
    apart = torch.tensor([0.1, 0.9, 0.4], dtype=torch.float64)
    assert torch.equal(aware_weights(sizes, apart, 0.0, 0.0, raw), sizes)
    weights = aware_weights(sizes, apart, 0.2, 0.2, raw)
    share = [n if raw else n / 100 for n in sizes.tolist()]
    wanted = [max(0, n - 0.2 * d + 0.2) for n, d in zip(share, apart.tolist(), strict=True)]
    found = (weights / weights.sum()).tolist()
    assert found == pytest.approx([w / sum(wanted) for w in wanted])
    assert sum(found) == pytest.approx(1)


def test_9_7_when_all_weights_are_zero_sizes_decide() -> None:
    sizes = torch.tensor([30.0, 70.0], dtype=torch.float64)
    apart = torch.ones(2, dtype=torch.float64)
    assert torch.equal(aware_weights(sizes, apart, 9.0, 0.0, raw=False), sizes)
    owners = torch.tensor([False, True])
    assert aware_weights(sizes, apart, 9.0, 0.0, False, owners).tolist() == [70.0]


def test_9_4_knowledge_discrepancy_is_a_mean_divergence() -> None:
    generator = torch.Generator().manual_seed(2)
    before, after = torch.randn(4, generator=generator), torch.randn(2, 4, generator=generator)
    p = before.double().softmax(0)
    for found, row in zip(knowledge_discrepancy(before, after), after, strict=True):
        q = row.double().softmax(0)
        wanted = sum(float(a) * math.log(float(a) / float(b)) for a, b in zip(p, q, strict=True))
        assert float(found) == pytest.approx(wanted / 4)


def test_9_4_two_rounds_of_the_server_against_loops() -> None:
    """Round 1 is a plain mean over owners, round 2 weighs each class and kind by itself."""
    algorithm, env = FedGMKD(local=LOCAL, knowledge_strength=40.0), federation.env()
    people = parties.population()
    state = algorithm.init(env)
    first = parties.updates(algorithm, state, people, range(4))
    one = algorithm.aggregate(state, iter(first.items()), env)
    second = parties.updates(
        FedGMKD(local=LOCAL, temperature=0.2),
        algorithm.init(federation.env(seed=9)),
        people,
        range(4),
    )
    two = algorithm.aggregate(one, iter(second.items()), env)
    total = sum(u.weight for u in second.values())
    sent = {k: Knowledge.of(u.tensors) for k, u in second.items()}
    for label in range(3):
        owners = [k for k in range(4) if parties.SKEWED[k][label]]
        plain = torch.stack([Knowledge.of(first[k].tensors).soft.values[label] for k in owners])
        assert torch.allclose(Knowledge.of(one.shared).soft.values[label], plain.mean(0), atol=1e-6)
        for kind in ("prototypes", "soft"):
            old = getattr(Knowledge.of(one.shared), kind).values[label]
            weights = []
            for k in owners:
                new = getattr(sent[k], kind).values[label]
                apart = float(knowledge_discrepancy(old, new))
                weights.append(max(0.0, second[k].weight / total - 40.0 * apart + 0.2))
            rows = torch.stack([getattr(sent[k], kind).values[label] for k in owners]).double()
            shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
            found = getattr(Knowledge.of(two.shared), kind).values[label]
            assert torch.allclose(found.double(), (shares[:, None] * rows).sum(0), atol=1e-5)


def test_9_4_models_are_joined_by_aware_weights() -> None:
    algorithm = FedGMKD("both", local=LOCAL, model_strength=0.5, model_offset=0.3)
    env, people = federation.env(), parties.population()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, people, range(4))
    after = algorithm.aggregate(state, iter(sent.items()), env)
    total = sum(u.weight for u in sent.values())
    weights = []
    for k, update in sent.items():
        shares = [n / update.weight for n in parties.SKEWED[k]]
        apart = math.sqrt(sum((s - 1 / 3) ** 2 for s in shares))
        weights.append(max(0.0, update.weight / total - 0.5 * apart + 0.3))
    for name in (n for n in after.shared if n.startswith("model.")):
        parts = (w * u.tensors[name].double() for w, u in zip(weights, sent.values(), strict=True))
        wanted = sum(parts) / sum(weights)
        assert torch.allclose(after.shared[name].double(), torch.as_tensor(wanted), atol=1e-6)


def test_9_1_counts_travel_once_and_serve_both_kinds() -> None:
    algorithm, env = FedGMKD(local=LOCAL), federation.env()
    sent = parties.updates(algorithm, algorithm.init(env), parties.population(), [0])[0]
    assert sent.tensors[PRESENT].tolist() == [20, 10, 0]
    assert sent.tensors[SOFT].shape == (2, 3)
