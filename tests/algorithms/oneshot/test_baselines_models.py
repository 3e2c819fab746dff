"""Baselines that fuse models without data: closed forms against written-out sums, end to end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.class_means import class_means
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.baselines.ensemble import Ensemble
from fedcord.algorithms.oneshot.baselines.fedavg_oneshot import FedAvgOneShot
from fedcord.algorithms.oneshot.baselines.fedetf import FRAME, FedETF, frame_scores
from fedcord.algorithms.oneshot.baselines.fedproto_oneshot import COUNTS, MEANS, FedProtoOneShot
from fedcord.algorithms.oneshot.baselines.one_exchange import SendsOnce
from fedcord.algorithms.oneshot.baselines.otfusion import OTFusion
from fedcord.core.contract import ClientId, ClientResult, Env, ServerState, Update
from fedcord.core.errors import ProtocolError
from fedcord.core.task import Task, tensors_of
from fedcord.core.tensors import Tensors, select
from fedcord.engine.evaluation import evaluate
from tests.federation import IMAGE, VECTOR, env, examples, population

SHORT = LocalSGD(epochs=2, batch_size=16, lr=0.1)
LONG = LocalSGD(epochs=15, batch_size=16, lr=0.1)
KINDS = [VECTOR, IMAGE]
NAMES = ["mlp", "resnet"]


def trained(
    method: SendsOnce, here: Env, values: dict[str, object]
) -> tuple[ServerState, dict[ClientId, ClientResult]]:
    people = population(values)
    state = method.init(here)
    return state, {
        k: method.client_update(state.shared, {}, people.client(k), here.at(k)) for k in (0, 1, 3)
    }


def updates(results: dict[ClientId, ClientResult]) -> Iterator[tuple[ClientId, Update]]:
    return iter([(client, result.update) for client, result in results.items()])


def alone(here: Env, model: Tensors) -> nn.Module:
    """A network built for this call only."""
    network = here.task.networks[0](None)
    network.load_state_dict(dict(model))
    return network.eval()


def accuracy(method: SendsOnce, values: dict[str, object]) -> float:
    here = env(values, rounds=1)
    state, results = trained(method, here, values)
    state = method.aggregate(state, updates(results), here)
    return evaluate(method, state.model, {}, population(values).test, here).accuracy


@pytest.mark.parametrize(
    "method",
    [
        FedAvgOneShot(local=LONG),
        Ensemble(local=LONG),
        Ensemble(local=LONG, fusion="features"),
        Ensemble(local=LONG, fusion="probabilities", weighting="uniform"),
        FedProtoOneShot(local=LONG),
        FedProtoOneShot(local=LONG, fusion="param_avg", proto_weighting="counts"),
        FedETF(local=LONG),
        FedETF(local=LONG, fusion="logits", loss="cross_entropy", scale=5.0),
        OTFusion(local=LONG),
        OTFusion(local=LONG, start="own"),
    ],
    ids=lambda method: f"{type(method).__name__}-{getattr(method, 'fusion', '')}",
)
def test_every_baseline_learns_the_small_task_in_one_round(method: SendsOnce) -> None:
    assert method.traits.rounds == 1
    assert accuracy(method, VECTOR) > 0.85


@pytest.mark.parametrize("values", KINDS, ids=NAMES)
def test_fedavg_oneshot_is_one_round_of_fedavg(values: dict[str, object]) -> None:
    here = env(values, rounds=1)
    method = FedAvgOneShot(local=SHORT)
    state, results = trained(method, here, values)
    fused = method.aggregate(state, updates(results), here)
    plain = FedAvg(local=SHORT).aggregate(state, updates(results), here)
    wanted, found = select(plain.shared, "model"), select(fused.result, "fused")
    assert wanted.keys() == found.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert fused.shared == state.shared  # nothing flows back


@pytest.mark.parametrize("values", KINDS, ids=NAMES)
@pytest.mark.parametrize("fusion", ["logits", "probabilities", "features"])
@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_ensemble_against_networks_asked_one_by_one(
    values: dict[str, object], fusion: str, weighting: str
) -> None:
    here = env(values, rounds=1)
    method = Ensemble(local=SHORT, fusion=fusion, weighting=weighting)
    state, results = trained(method, here, values)
    model = method.aggregate(state, updates(results), here).model
    x = here.task.prepare(examples(7, 5, values).inputs)
    sizes = [40.0, 25.0, 60.0] if weighting == "size" else [1.0, 1.0, 1.0]
    networks = [alone(here, select(r.update.tensors, "model")) for r in results.values()]
    with torch.no_grad():
        parts = []
        for size, network in zip(sizes, networks, strict=True):
            said = features_of(network, x) if fusion == "features" else network(x)
            parts.append(
                size / sum(sizes) * (said.softmax(1) if fusion == "probabilities" else said)
            )
        wanted = parts[0] + parts[1] + parts[2]
        if fusion == "features":
            heads = [tensors_of(network) for network in networks]
            name = "head" if "head.bias" in heads[0] else "linear_layers.1"
            weight, bias = (
                sum(s / sum(sizes) * h[f"{name}.{kind}"] for s, h in zip(sizes, heads, strict=True))
                for kind in ("weight", "bias")
            )
            assert isinstance(weight, Tensor)
            wanted = wanted @ weight.T + bias
    found = method.predictor(model, {}, here).scores(x)
    torch.testing.assert_close(
        found.exp() if fusion == "probabilities" else found, wanted, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("values", KINDS, ids=NAMES)
@pytest.mark.parametrize("weighting", ["uniform", "counts"])
def test_fedproto_oneshot_against_loops(values: dict[str, object], weighting: str) -> None:
    here = env(values, rounds=1)
    method = FedProtoOneShot(local=SHORT, fusion="param_avg", proto_weighting=weighting)
    state, results = trained(method, here, values)
    people = population(values)
    sums = torch.zeros(3, results[0].update.tensors[MEANS].shape[1])
    holders = [0.0, 0.0, 0.0]
    for client, result in results.items():
        network = alone(here, select(result.update.tensors, "model"))
        own = people.client(client).train
        for c in range(3):
            rows = [i for i in range(len(own)) if int(own.labels[i]) == c]
            assert int(result.update.tensors[COUNTS][c]) == len(rows)
            if not rows:
                continue
            with torch.no_grad():
                each = [
                    network.features(here.task.prepare(own.inputs[i : i + 1]))[0]  # type: ignore[operator]
                    for i in rows
                ]
            mean = torch.stack(each).mean(0)
            torch.testing.assert_close(result.update.tensors[MEANS][c], mean, rtol=1e-3, atol=1e-5)
            share = 1.0 if weighting == "uniform" else float(len(rows))
            sums[c] += share * mean
            holders[c] += share
    model = method.aggregate(state, updates(results), here).model
    fused = alone(here, select(model, "fused.model"))
    x = here.task.prepare(examples(6, 5, values).inputs)
    with torch.no_grad():
        features = fused.features(x)  # type: ignore[operator]
    found = method.predictor(model, {}, here).scores(x)
    for i in range(6):
        for c in range(3):
            gap = features[i] - sums[c] / holders[c]
            wanted = -float((gap * gap).mean())
            assert float(found[i, c]) == pytest.approx(wanted, rel=1e-2, abs=1e-4)


def test_fedproto_oneshot_never_answers_a_class_that_nobody_holds() -> None:
    here = env(rounds=1)
    method = FedProtoOneShot(local=SHORT)
    state, results = trained(method, here, VECTOR)
    for client, result in results.items():
        kept = dict(result.update.tensors)
        kept[COUNTS] = kept[COUNTS] * torch.tensor([1.0, 0.0, 1.0])
        results[client] = dataclasses.replace(
            result, update=dataclasses.replace(result.update, tensors=kept)
        )
    model = method.aggregate(state, updates(results), here).model
    scores = method.predictor(model, {}, here).scores(here.task.prepare(examples(50, 5).inputs))
    assert set(scores.argmax(1).tolist()) == {0, 2}
    assert bool(torch.isfinite(scores).all())


def test_class_means_of_nothing_are_zero() -> None:
    here = env()
    network = here.task.initial_network(here.generator("init")).eval()
    means, counts = class_means(network, examples(0, 0), here)
    assert not means.any()
    assert counts.tolist() == [0.0, 0.0, 0.0]


def test_fedetf_scores_are_cosines_to_a_simplex() -> None:
    here = env(rounds=1)
    frame = FedETF().init(here).shared[FRAME]
    gram = frame @ frame.T
    for a in range(3):
        for b in range(3):
            wanted = 1.0 if a == b else -1 / 2
            assert float(gram[a, b]) == pytest.approx(wanted, abs=1e-5)
    projected = torch.tensor([[3.0, 4.0, 0.0]])
    found = frame_scores(projected, frame, 2.0)
    for c in range(3):
        dot = 0.6 * float(frame[c, 0]) + 0.8 * float(frame[c, 1])
        assert float(found[0, c]) == pytest.approx(2 * dot, abs=1e-5)
    assert torch.equal(frame, FedETF().init(here.at(4)).shared[FRAME]) is False  # drawn by address
    assert torch.equal(frame, FedETF().init(here).shared[FRAME])


@pytest.mark.parametrize("loss", ["balanced", "cross_entropy"])
def test_fedetf_first_step_follows_the_stated_loss(loss: str) -> None:
    here = env(rounds=1)
    method = FedETF(local=LocalSGD(steps=1, batch_size=64, lr=0.1), loss=loss, scale=3.0)
    state = method.init(here)
    data = population().client(1)
    found = method.client_update(state.shared, {}, data, here.at(1)).update
    network = here.task.networks[0](None)
    network.load_state_dict(select(state.shared, "model"))
    x, y = here.task.prepare(data.train.inputs), data.train.labels
    counts = [max(int((y == c).sum()), 1) for c in range(3)]
    total: Any = 0.0
    for i in range(len(y)):
        h = network(x[i : i + 1])[0]
        scores = []
        for c in range(3):
            score = 3.0 * (h / h.norm()) @ state.shared[FRAME][c]
            scores.append(score + math.log(counts[c]) if loss == "balanced" else score)
        stacked = torch.stack(scores)
        total = total - stacked[int(y[i])] + stacked.exp().sum().log()
    (total / len(y)).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        wanted = parameter.detach() - 0.1 * parameter.grad
        torch.testing.assert_close(found.tensors[f"model.{name}"], wanted, rtol=1e-4, atol=1e-5)


def test_fedetf_needs_two_classes() -> None:
    single = Task(1, (8,), env().task.networks, lambda x: x)
    (error,) = FedETF().review(single).errors
    assert "fedetf needs at least 2 classes" in error


def test_nobody_with_examples_is_refused() -> None:
    here = env(rounds=1)
    method = Ensemble(local=SHORT)
    state, results = trained(method, here, VECTOR)
    nothing = [(k, dataclasses.replace(r.update, weight=0.0)) for k, r in results.items()]
    with pytest.raises(ProtocolError, match="no client trained on an example"):
        method.aggregate(state, iter(nothing), here)


def test_clients_use_the_stacked_path_and_get_the_same_bits() -> None:
    here = env(rounds=1)
    method = FedProtoOneShot(local=SHORT)
    assert method.can_stack(here.task)
    assert not FedETF(local=SHORT).can_stack(here.task)
    assert not OTFusion(local=SHORT, start="own").can_stack(here.task)
    people, state = population(), method.init(here)
    datas, envs = [people.client(k) for k in (0, 1)], [here.at(k) for k in (0, 1)]
    together = method.client_updates(state.shared, [{}, {}], datas, envs)
    for data, place, result in zip(datas, envs, together, strict=True):
        single = method.client_update(state.shared, {}, data, place).update
        assert single.tensors.keys() == result.update.tensors.keys()
        for name, tensor in single.tensors.items():
            assert torch.equal(tensor, result.update.tensors[name])
    network = here.task.network_with(select(state.shared, "model"))
    slow = SHORT.train(network, datas[0].train, cross_entropy, envs[0])
    assert slow["train_loss"] == pytest.approx(together[0].update.metrics["train_loss"], rel=1e-4)
