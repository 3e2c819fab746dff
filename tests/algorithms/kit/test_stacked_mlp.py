"""The stacked fast path against autograd, and its independence of the stack."""

from dataclasses import replace

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked, train_stacked
from fedcord.core.contract import Env
from fedcord.core.errors import NumericalError
from fedcord.core.tensors import hash_tensors
from tests import federation

FORMS = {
    "plain": LocalSGD(epochs=2, batch_size=16, lr=0.1),
    "momentum": LocalSGD(epochs=2, batch_size=16, lr=0.05, momentum=0.9),
    "decay": LocalSGD(epochs=2, batch_size=16, lr=0.1, weight_decay=0.05),
    "both": LocalSGD(epochs=2, batch_size=16, lr=0.05, momentum=0.9, weight_decay=0.05),
    "steps": LocalSGD(steps=5, batch_size=7, lr=0.1),
}


def _values(model: str) -> dict[str, object]:
    return {**federation.VECTOR, "models": [model]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["logistic", "mlp:16", "mlp:16-8"])
@pytest.mark.parametrize("pull", [0.0, 0.3])
def test_equals_the_autograd_path(form: str, model: str, pull: float) -> None:
    values = _values(model)
    env, people = federation.env(values), federation.population(values)
    # a clip far away changes no value but takes the general path
    slow_local = replace(FORMS[form], clip=1e9)
    fast = FedProx(pull, FORMS[form])
    slow = FedProx(pull, slow_local)
    assert fast.can_stack(env.task)
    assert not slow.can_stack(env.task)
    shared = fast.init(env).shared
    for client in range(people.num_clients):
        here, data = env.at(client), people.client(client)
        one = fast.client_update(shared, {}, data, here).update
        two = slow.client_update(shared, {}, data, here).update
        assert one.tensors.keys() == two.tensors.keys()
        for name, tensor in one.tensors.items():
            assert torch.allclose(tensor, two.tensors[name], atol=1e-6), name
        assert one.metrics["train_loss"] == pytest.approx(two.metrics["train_loss"], abs=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_client_has_the_same_bits_in_any_stack(form: str) -> None:
    env, people = federation.env(), federation.population()
    algorithm = FedAvg(FORMS[form])
    shared = algorithm.init(env).shared
    datas = [people.client(k) for k in range(4)]
    envs = [env.at(k) for k in range(4)]
    alone = [algorithm.client_update(shared, {}, d, e) for d, e in zip(datas, envs, strict=True)]
    for chosen in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 2], [0, 3]):
        stack = algorithm.client_updates(
            shared, [{}] * len(chosen), [datas[k] for k in chosen], [envs[k] for k in chosen]
        )
        for k, result in zip(chosen, stack, strict=True):
            assert hash_tensors(result.update.tensors) == hash_tensors(alone[k].update.tensors)
            assert result.update.metrics == alone[k].update.metrics


def test_an_empty_client_keeps_the_received_weights() -> None:
    people = federation.population(sizes=(5, 0))
    env = federation.env()
    algorithm = FedAvg()
    shared = algorithm.init(env).shared
    results = train_stacked(
        algorithm.local, shared, [people.client(0), people.client(1)], [env.at(0), env.at(1)]
    )
    assert hash_tensors(results[1].update.tensors) == hash_tensors(shared)
    assert results[1].update.weight == 0


@pytest.mark.parametrize(
    "local",
    [
        LocalSGD(optimizer="adam"),
        LocalSGD(clip=1.0),
        LocalSGD(augment="flip"),
        LocalSGD(visit_schedule="cosine"),
    ],
    ids=["adam", "clip", "augment", "falling rate"],
)
def test_anything_not_plain_takes_the_general_path(local: LocalSGD) -> None:
    assert not can_train_stacked(federation.task(), local)


def test_networks_that_are_no_mlp_take_the_general_path() -> None:
    assert can_train_stacked(federation.task(), LocalSGD())
    assert not can_train_stacked(federation.task(federation.IMAGE), LocalSGD())
    mixed = {**federation.VECTOR, "models": ["mlp:16", "logistic"]}
    assert not can_train_stacked(federation.task(mixed), LocalSGD())


def test_divergence_says_what_to_change() -> None:
    env, people = federation.env(), federation.population()
    algorithm = FedAvg(LocalSGD(lr=1e25, epochs=5))
    shared = algorithm.init(env).shared
    with pytest.raises(NumericalError, match=r"the training loss became .* lower local\.lr"):
        algorithm.client_update(shared, {}, people.client(1), Env(env.task, 0, client=1))
