"""FedPer, FedRep, FedBABU and FedBN: parts of a network that stay, and what they reduce to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.combine import Combine
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, AveragesModels, first_network
from fedcord.algorithms.kit.partial_model import KeepsPartOfModel
from fedcord.algorithms.personal.fedbabu import FedBABU
from fedcord.algorithms.personal.fedbn import FedBN
from fedcord.algorithms.personal.fedper import FedPer, last_layers
from fedcord.algorithms.personal.fedrep import FedRep
from fedcord.core.contract import Algorithm
from fedcord.core.task import tensors_of
from fedcord.core.tensors import hash_tensors, select
from tests import federation
from tests.algorithms.personal.clients import GENERAL, QUICK, VALUES, run

HEAD = {"mlp": "linear_layers.1.", "resnet": "head."}


@pytest.mark.parametrize("network", VALUES)
def test_fedper_that_keeps_nothing_averages_as_fedavg(network: str) -> None:
    done = run(FedPer(personal_layers=0, local=QUICK), network)
    assert hash_tensors(done.state.shared) == hash_tensors(run(FedAvg(QUICK), network).state.shared)
    assert all(list(memory) == ["visited"] for memory in done.memories.values())


def test_fedper_keeps_as_many_last_layers_as_it_is_told() -> None:
    network = federation.task(federation.IMAGE).scratch_network()
    assert last_layers(network, 0) == set()
    assert last_layers(network, 1) == {"head.weight", "head.bias"}
    deeper = last_layers(network, 2)
    assert deeper > last_layers(network, 1)
    assert len({name.rpartition(".")[0] for name in deeper}) == 2
    assert last_layers(network, 1000) == set(network.state_dict())


@pytest.mark.parametrize("method", [FedPer(local=QUICK), FedRep(local=QUICK)])
@pytest.mark.parametrize("network", VALUES)
def test_heads_stay_and_differ_and_the_rest_is_common(
    network: str, method: KeepsPartOfModel
) -> None:
    done = run(method, network)
    head = f"model.{HEAD[network]}"
    assert not any(name.startswith(head) for name in done.state.model)
    assert all(name.startswith(head) for memory in done.memories.values() for name in memory)
    first, second = (done.memories[client][f"{head}weight"] for client in (0, 1))
    assert not torch.equal(first, second)
    env = federation.env(VALUES[network], rounds=2)
    drawn = tensors_of(first_network(env))
    on_server = method.model_of(done.state.model, {}, env)
    assert torch.equal(on_server[f"{HEAD[network]}weight"], drawn[f"{HEAD[network]}weight"])


@pytest.mark.parametrize("network", VALUES)
def test_fedrep_without_epochs_of_the_head_is_fedbabus_body(network: str) -> None:
    rep = run(FedRep(head_epochs=0, local=QUICK), network)
    babu = run(FedBABU(local=QUICK), network)
    assert hash_tensors(rep.state.shared) == hash_tensors(babu.state.shared)
    more = run(FedRep(head_epochs=1, local=QUICK), network)
    assert hash_tensors(more.state.shared) != hash_tensors(rep.state.shared)


def test_fedrep_fits_the_head_on_fixed_features_and_then_the_features_under_it() -> None:
    """Against `torch.optim` on one part at a time."""
    env, data = federation.env().at(0), federation.population().client(0)
    method = FedRep(head_epochs=3, local=LocalSGD(batch_size=8, lr=0.1, momentum=0.9))
    shared = method.init(replace(env, client=None)).shared
    done = method.client_update(shared, {}, data, env)
    network = first_network(env)
    layers: nn.ModuleList = network.linear_layers  # type: ignore[assignment]
    inputs, labels = env.task.prepare(data.train.inputs), data.train.labels
    for layer, epochs in ((layers[1], 3), (layers[0], 1)):
        descent = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        stream = env.generator("batches")
        for _ in range(epochs):
            for batch in torch.randperm(len(labels), generator=stream).split(8):
                descent.zero_grad()
                F.cross_entropy(network(inputs[batch]), labels[batch]).backward()
                descent.step()
    found = {**select(done.update.tensors, MODEL), **select(done.memory, MODEL)}
    for name, tensor in network.state_dict().items():
        assert torch.allclose(found[name], tensor, atol=1e-6)


@pytest.mark.parametrize("network", VALUES)
def test_fedbabus_head_never_moves_while_its_body_does(network: str) -> None:
    """Also under momentum and weight decay, which move weights whose gradient is zero."""
    local = replace(QUICK, momentum=0.9, weight_decay=0.1)
    method = FedBABU(local=local)
    before = method.init(federation.env(VALUES[network]))
    after = run(method, network).state
    head = f"model.{HEAD[network]}"
    assert all(name.startswith(head) == (name in after.result) for name in after.model)
    for name, tensor in before.model.items():
        if tensor.is_floating_point():
            assert torch.equal(after.model[name], tensor) == name.startswith(head), name


@pytest.mark.parametrize(
    ("part", "moves"), [("all", "both"), ("classifier", "head"), ("features", "body")]
)
def test_fedbabu_fine_tunes_what_it_is_told(part: str, moves: str) -> None:
    method = FedBABU(finetuned=part, finetune_epochs=1, local=QUICK)
    env, data = federation.env().at(0), federation.population().client(0)
    model = method.init(replace(env, client=None)).model
    made = method.personalize(model, {}, data, env)
    moved = {
        "head" if "layers.1" in name else "body"
        for name in model
        if not torch.equal(made[name], model[name])
    }
    assert moved == ({"head", "body"} if moves == "both" else {moves})


def test_fedbn_without_normalisation_layers_averages_as_fedavg() -> None:
    done = run(FedBN(QUICK))
    assert hash_tensors(done.state.shared) == hash_tensors(run(FedAvg(QUICK)).state.shared)
    assert all(list(memory) == ["visited"] for memory in done.memories.values())


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_fedbn_never_sends_a_normalisation_layer(norm: str) -> None:
    values = {**federation.IMAGE, "models": [f"resnet10,width=4,norm={norm},groups=2"]}
    env, data = federation.env(values).at(0), federation.population(values, (16,)).client(0)
    method = FedBN(QUICK)
    shared = method.init(replace(env, client=None)).shared
    done = method.client_update(shared, {}, data, env)
    network = env.task.scratch_network(0)
    kept = {
        f"model.{place}.{name}"
        for place, layer in network.named_modules()
        if isinstance(layer, nn.BatchNorm2d | nn.GroupNorm)
        for name in layer.state_dict()
    }
    assert len(kept) > 4
    assert set(done.memory) == kept
    assert set(shared) == set(done.update.tensors)
    assert set(shared) | kept == {f"model.{name}" for name in network.state_dict()}
    # the next visit goes on from what was kept
    again = method.client_update(shared, done.memory, data, env)
    anew = method.client_update(shared, {}, data, env)
    assert hash_tensors(anew.memory) == hash_tensors(done.memory) != hash_tensors(again.memory)


@pytest.mark.parametrize("method", [FedPer(), FedRep(), FedBABU(), FedPer(personal_layers=9)])
def test_a_network_that_would_share_nothing_is_refused(method: Algorithm) -> None:
    task = federation.task({**federation.VECTOR, "models": ["logistic"]})
    (error,) = method.review(task).errors
    assert "nothing would be shared; choose a network with trained layers below" in error
    assert method.review(federation.task()).errors == () or method == FedPer(personal_layers=9)


def test_networks_must_agree_in_what_is_averaged_and_in_no_more() -> None:
    values = {**federation.VECTOR, "models": ["mlp:16", "mlp:16-16"]}
    (error,) = FedPer().review(federation.task(values)).errors
    assert "differ between the networks given" in error
    same = {**federation.VECTOR, "models": ["mlp:16", "mlp:16"]}
    assert FedPer().review(federation.task(same)).errors == ()


def test_clipped_and_plain_training_agree_for_the_whole_network() -> None:
    """FedPer trains as FedAvg does, in one go where that is possible."""
    values: list[Tensor] = []
    for local in (QUICK, GENERAL):
        env, data = federation.env().at(0), federation.population().client(0)
        method = FedPer(local=local)
        shared = method.init(replace(env, client=None)).shared
        memory = method.client_update(shared, {}, data, env).memory
        values.append(memory["model.linear_layers.1.weight"])
    assert torch.allclose(values[0], values[1], atol=1e-6)


@pytest.mark.parametrize("cls", [FedPer, FedRep, FedBN, FedBABU])
def test_parts_can_be_joined_by_a_robust_rule(cls: type[AveragesModels]) -> None:
    """The median of every sent weight, against NumPy; such rounds cannot be masked."""
    method = cls(combine=Combine("median"))
    env, people = federation.env(), federation.population()
    assert not method.traits.sums_suffice
    state = method.init(env)
    updates = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 1, 3)
    ]
    after = method.aggregate(state, iter(updates), env)
    for name, tensor in after.shared.items():
        sent = np.stack([update.tensors[name].numpy() for _, update in updates])
        assert np.allclose(tensor.numpy(), np.median(sent, axis=0), atol=1e-7)
