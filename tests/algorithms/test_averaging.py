"""Invariants of FedAvg (specification prototype, section 3) and FedProx (section 4)."""

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy, received_model
from fedcord.core.contract import Env
from fedcord.core.task import tensors_of
from fedcord.core.tensors import hash_tensors, select
from fedcord.engine.rounds import Schedule, run_rounds
from tests import federation

GENERAL = LocalSGD(clip=1e9)  # the path with autograd


@pytest.mark.parametrize("values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"])
def test_3_one_client_is_centralised_sgd(values: dict[str, object]) -> None:
    people, env = federation.population(values, sizes=(40,)), federation.env(values, rounds=2)
    algorithm = FedAvg(GENERAL)
    state = algorithm.init(env)
    reached = federation.sequential(algorithm, env.task, people)
    final = run_rounds(algorithm, reached, env, state, Schedule(2, lambda _: [0]))
    shared = state.shared
    for round_ in range(2):
        here = Env(env.task, env.seed, round_, 2, 0)
        network = received_model(shared, here)
        GENERAL.train(network, people.client(0).train, cross_entropy, here)
        shared = {f"model.{name}": tensor for name, tensor in tensors_of(network).items()}
    assert hash_tensors(final.shared) == hash_tensors(shared)


def test_3_batch_norm_statistics_are_averaged_and_counts_are_not() -> None:
    values = federation.IMAGE
    people, env = federation.population(values), federation.env(values)
    algorithm = FedAvg()
    state = algorithm.init(env)
    results = {
        k: algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update
        for k in (0, 1, 3)
    }
    after = algorithm.aggregate(state, iter(results.items()), env)
    total = sum(u.weight for u in results.values())
    name = next(n for n in after.shared if n.endswith("running_mean"))
    sent = torch.stack([u.tensors[name].double() * u.weight for u in results.values()])
    expected = sent.sum(0) / total
    assert torch.allclose(after.shared[name].double(), expected, atol=1e-6)
    count = next(n for n in after.shared if n.endswith("num_batches_tracked"))
    assert after.shared[count] == max(int(u.tensors[count]) for u in results.values())


def test_3_two_different_clients_average_to_something_else() -> None:
    """Guards against updates that alias one network: the average would be the last client."""
    people, env = federation.population(), federation.env()
    algorithm = FedAvg(GENERAL)
    state = algorithm.init(env)
    updates = [
        (k, algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 3)
    ]
    after = algorithm.aggregate(state, iter(updates), env)
    hashes = {hash_tensors(after.shared), *(hash_tensors(u.tensors) for _, u in updates)}
    assert len(hashes) == 3


@pytest.mark.parametrize("local", [LocalSGD(), GENERAL], ids=["stacked", "autograd"])
@pytest.mark.parametrize("values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"])
def test_4_no_pull_is_fedavg_bit_for_bit(local: LocalSGD, values: dict[str, object]) -> None:
    people, env = federation.population(values), federation.env(values)
    shared = FedAvg(local).init(env).shared
    for client in (0, 2):
        here, data = env.at(client), people.client(client)
        one = FedAvg(local).client_update(shared, {}, data, here).update
        two = FedProx(0.0, local).client_update(shared, {}, data, here).update
        assert hash_tensors(one.tensors) == hash_tensors(two.tensors)


@pytest.mark.parametrize("clip", [None, 1e9], ids=["stacked", "autograd"])
def test_4_the_first_step_feels_no_pull(clip: float | None) -> None:
    """θ = θ_global at the start, so one step of FedProx is one step of FedAvg."""
    people, env = federation.population(), federation.env()
    local = LocalSGD(steps=1, clip=clip)
    shared = FedAvg(local).init(env).shared
    data, here = people.client(0), env.at(0)
    free = FedAvg(local).client_update(shared, {}, data, here).update.tensors
    held = FedProx(5.0, local).client_update(shared, {}, data, here).update.tensors
    for name, tensor in free.items():
        assert torch.allclose(tensor, held[name], atol=1e-6)


@pytest.mark.parametrize("clip", [None, 1e9], ids=["stacked", "autograd"])
def test_4_a_strong_pull_keeps_the_client_near(clip: float | None) -> None:
    people, env = federation.population(), federation.env()
    local = LocalSGD(epochs=10, lr=0.05, clip=clip)
    shared = FedAvg(local).init(env).shared

    def distance(weight: float) -> float:
        sent = FedProx(weight, local).client_update(shared, {}, people.client(0), env.at(0))
        return sum(float((t - shared[n]).square().sum()) for n, t in sent.update.tensors.items())

    distances = [distance(weight) for weight in (0.0, 1.0, 10.0)]
    assert distances[0] > distances[1] > distances[2] > 0


def test_4_equals_a_loss_with_the_squared_distance() -> None:
    """Against autograd on CE + μ/2 ||θ − θ_global||², written out."""
    people, env = federation.population(), federation.env()
    local, weight = LocalSGD(epochs=2, momentum=0.9, clip=1e9), 0.7
    shared = FedAvg(local).init(env).shared
    here, data = env.at(0), people.client(0)
    ours = FedProx(weight, local).client_update(shared, {}, data, here).update.tensors
    start = {n: t.clone() for n, t in select(shared, "model").items()}
    network = received_model(shared, here)

    def loss(net: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        distance = sum(((p - start[n]) ** 2).sum() for n, p in net.named_parameters())
        return cross_entropy(net, inputs, labels) + weight / 2 * distance

    local.train(network, data.train, loss, here)
    for name, tensor in tensors_of(network).items():
        assert torch.allclose(tensor, ours[f"model.{name}"], atol=1e-5)
