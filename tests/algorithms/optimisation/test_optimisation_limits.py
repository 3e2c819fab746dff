"""What each method reduces to, to the bit where the arithmetic is the same."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.combine import Combine
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.kit.steps import gradient_weight
from fedcord.algorithms.optimisation.feddisco import DISCREPANCY, FedDisco
from fedcord.algorithms.optimisation.feddyn import FedDyn
from fedcord.algorithms.optimisation.fedlc import FedLC, calibrated_loss
from fedcord.algorithms.optimisation.fednova import FedNova
from fedcord.algorithms.optimisation.fedopt import FedOpt
from fedcord.algorithms.optimisation.scaffold import SCAFFOLD
from fedcord.core.contract import Algorithm, ServerState, Update
from fedcord.core.tensors import hash_tensors, prefixed, select
from fedcord.engine.rounds import Schedule, run_rounds
from tests import federation

GENERAL = LocalSGD(clip=1e9)  # the path with autograd, which methods with corrections take
VALUES = pytest.mark.parametrize(
    "values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"]
)


def model_after(
    algorithm: Algorithm, num_rounds: int, values: dict[str, object] = federation.VECTOR
) -> str:
    """The hash of the model after some rounds of everybody."""
    people, env = federation.population(values), federation.env(values, rounds=num_rounds)
    reached = federation.sequential(algorithm, env.task, people)
    schedule = Schedule(num_rounds, lambda _: [0, 1, 2, 3], evaluate_every=num_rounds)
    state = run_rounds(algorithm, reached, env, algorithm.init(env), schedule)
    return hash_tensors(select(state.shared, "model"))


@VALUES
def test_scaffold_begins_as_fedavg(values: dict[str, object]) -> None:
    first = model_after(FedAvg(GENERAL), 1, values)
    assert model_after(SCAFFOLD(local=GENERAL), 1, values) == first
    assert model_after(SCAFFOLD("gradient", local=GENERAL), 1, values) == first
    assert model_after(SCAFFOLD(local=GENERAL), 2, values) != model_after(
        FedAvg(GENERAL), 2, values
    )


@VALUES
def test_fednova_with_equal_steps_is_fedavg(values: dict[str, object]) -> None:
    for local in (LocalSGD(steps=3), LocalSGD(steps=3, momentum=0.7)):
        assert model_after(FedNova(local), 2, values) == model_after(FedAvg(local), 2, values)
    unequal = LocalSGD(batch_size=8)
    assert model_after(FedNova(unequal), 2, values) != model_after(FedAvg(unequal), 2, values)


@VALUES
def test_momentum_of_zero_is_fedavg_and_so_is_the_first_round(values: dict[str, object]) -> None:
    plain = model_after(FedAvg(), 2, values)
    assert model_after(FedOpt("momentum", 1.0, 0.0), 2, values) == plain
    assert model_after(FedOpt("momentum", 1.0, 0.9), 2, values) != plain
    first = model_after(FedAvg(), 1, values)
    assert model_after(FedOpt("momentum", 1.0, 0.9), 1, values) == first


def test_a_robust_rule_takes_the_place_of_the_mean() -> None:
    """Limits hold with it too, so every method joins models by it, and nothing else."""
    median, equal = Combine("median"), LocalSGD(steps=3)
    wanted = model_after(FedAvg(equal, combine=median), 2)
    assert wanted != model_after(FedAvg(equal), 2)
    assert model_after(FedNova(equal, combine=median), 2) == wanted
    assert model_after(FedOpt("momentum", 1.0, 0.0, local=equal, combine=median), 2) == wanted
    assert model_after(FedDisco(0.0, 0.0, equal, combine=median), 2) == wanted
    alone = LocalSGD(steps=3, clip=1e9)
    wanted = model_after(FedAvg(alone, combine=median), 1)
    assert model_after(SCAFFOLD(local=alone, combine=median), 1) == wanted
    assert model_after(FedLC(0.0, alone, combine=median), 1) == wanted


def test_a_client_that_lies_about_its_steps_cannot_stretch_the_way() -> None:
    people, env = federation.population(), federation.env()
    method = FedNova(LocalSGD(batch_size=8), combine=Combine("median"))
    state = method.init(env)
    updates = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 1, 3)
    ]
    liar = replace(updates[1][1], tensors={**updates[1][1].tensors, "steps": torch.tensor(1e30)})
    honest = method.aggregate(state, iter(updates), env).shared
    told = method.aggregate(state, iter([updates[0], (1, liar), updates[2]]), env).shared
    for name, start in state.shared.items():
        assert torch.isfinite(told[name]).all()
        assert (told[name] - start).norm() < 3 * (honest[name] - start).norm()


def test_feddyn_without_regularisation_trains_as_fedavg_does() -> None:
    people, env = federation.population(), federation.env()
    shared = FedAvg(GENERAL).init(env).shared
    data, here = people.client(0), env.at(0)
    plain = FedAvg(GENERAL).client_update(shared, {}, data, here).update
    kept: dict[str, torch.Tensor] = {}
    for regularisation, is_same in ((0.0, True), (1e-30, True), (1.0, False)):
        method = FedDyn(regularisation, GENERAL)
        result = method.client_update(shared, kept, data, here)
        same = hash_tensors(result.update.tensors) == hash_tensors(plain.tensors)
        assert same == is_same
        kept = dict(result.memory)  # also with drifts from before


def test_feddyns_first_round_is_twice_the_mean_minus_the_start() -> None:
    """h = −α (mean − θ⁰), so θ¹ = mean − h/α: the paper's, for every α."""
    people, env = federation.population(), federation.env()
    method = FedDyn(0.3, GENERAL)
    state = method.init(env)
    updates = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 1, 3)
    ]
    mean = FedAvg().aggregate(state, iter(updates), env).shared
    moved = method.aggregate(state, iter(updates), env).shared
    for name, start in state.shared.items():
        torch.testing.assert_close(moved[name], 2 * mean[name] - start)


def test_feddyns_gradient_is_that_of_the_bent_loss() -> None:
    """Against autograd on CE − ⟨∇L_k, θ⟩ + α/2 ||θ − θ_received||², with ∇L_k = −α s_k."""
    people, env = federation.population(), federation.env()
    alpha, local = 0.4, LocalSGD(epochs=2, momentum=0.5, clip=1e9)
    method = FedDyn(alpha, local)
    shared, data, here = method.init(env).shared, people.client(0), env.at(0)
    drift = {n: torch.full_like(t, 0.01) for n, t in shared.items()}
    ours = method.client_update(shared, prefixed("drift", drift), data, here).update.tensors
    network = env.task.network_with(select(shared, "model"))
    start = [p.detach().clone() for p in network.parameters()]

    def bent(net: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        value = cross_entropy(net, inputs, labels)
        for weight, origin in zip(net.parameters(), start, strict=True):
            value = value + alpha * (0.01 * weight).sum()
            value = value + alpha / 2 * (weight - origin).square().sum()
        return value

    local.train(network, data.train, bent, here)
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(ours[f"model.{name}"], tensor, rtol=1e-4, atol=1e-6)


def test_scaffolds_variates_are_those_of_the_paper() -> None:
    """Two rounds of two clients, c and c_i written out."""
    people, env = federation.population(), federation.env()
    method = SCAFFOLD(local=GENERAL)
    state = method.init(env)
    results = {}
    for k in (0, 3):
        results[k] = method.client_update(state.shared, {}, people.client(k), env.at(k))
    after = method.aggregate(state, iter([(k, r.update) for k, r in results.items()]), env)
    total = sum(len(people.client(k).train) for k in (0, 3))
    for name in (n for n in state.shared if n.startswith("model.")):
        c = torch.zeros_like(state.shared[name], dtype=torch.float64)
        for k, result in results.items():
            steps = math.ceil(len(people.client(k).train) / 32)
            own = (state.shared[name] - result.update.tensors[name]) / (steps * 0.05)
            torch.testing.assert_close(result.memory[f"control.{name}"], own)
            c += own.double() * len(people.client(k).train) / total
        torch.testing.assert_close(after.shared[f"control.{name}"].double(), c, atol=1e-6, rtol=0)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_gradient_weight_counts_how_often_every_gradient_is_used(schedule: str) -> None:
    for momentum in (0.0, 0.5, 0.9):
        local = LocalSGD(steps=7, momentum=momentum, visit_schedule=schedule)
        velocity, total = 0.0, 0.0
        for step in range(7):  # all gradients are one
            velocity = momentum * velocity + 1
            falling = (1 + math.cos(math.pi * step / 7)) / 2
            total += velocity * (falling if schedule == "cosine" else 1)
        assert gradient_weight(local, 1) == pytest.approx(total)
    assert gradient_weight(LocalSGD(), 0) == 0


def test_adam_is_refused_where_ways_are_read_as_gradients() -> None:
    task, adam = federation.task(), LocalSGD(optimizer="adam")
    for method in (FedNova(adam), SCAFFOLD(local=adam)):
        (error,) = method.review(task).errors
        assert "use sgd, with or without momentum" in error
    assert not SCAFFOLD("gradient", local=adam).review(task).errors


def test_no_calibration_is_fedavg() -> None:
    assert model_after(FedLC(0.0, GENERAL), 2) == model_after(FedAvg(GENERAL), 2)
    assert model_after(FedLC(0.5, GENERAL), 2) != model_after(FedAvg(GENERAL), 2)


def test_the_calibrated_loss_against_a_loop() -> None:
    counts, tau = torch.tensor([16, 1, 0, 81]), 0.7
    scores = torch.randn(5, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([0, 1, 3, 3, 0])
    wanted = 0.0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        held = {c: row[c] - tau / counts[c].item() ** 0.25 for c in (0, 1, 3)}
        wanted -= held[label] - math.log(sum(map(math.exp, held.values())))
    found = calibrated_loss(counts, tau)(torch.nn.Identity(), scores, labels)
    assert found.item() == pytest.approx(wanted / 5, rel=1e-5)
    (gradient,) = torch.autograd.grad(found, [scores])
    assert torch.isfinite(gradient).all()
    assert (gradient[:, 2] == 0).all()  # the client neither raises nor lowers what it lacks
    assert calibrated_loss(counts, 0.0)(torch.nn.Identity(), scores, labels) == F.cross_entropy(
        scores, labels
    )


def disco_update(size: int, discrepancy: float) -> Update:
    number = torch.tensor(discrepancy, dtype=torch.float64)
    return Update({"model.w": torch.tensor([float(size)]), DISCREPANCY: number}, weight=size)


def test_feddisco_without_discrepancy_is_fedavg() -> None:
    assert model_after(FedDisco(0.0, 0.0), 2) == model_after(FedAvg(), 2)
    assert model_after(FedDisco(0.5, 0.1), 2) != model_after(FedAvg(), 2)


def test_feddiscos_weights_are_the_papers() -> None:
    updates = [disco_update(10, 0.0), disco_update(30, 0.2), disco_update(60, 0.9)]
    found = FedDisco(0.5, 0.1).weights(updates)
    assert found == pytest.approx([100 * (0.1 + 0.1), 100 * (0.3 - 0.1 + 0.1), 100 * (0.6 - 0.35)])
    assert FedDisco(1.0, 0.1).weights(updates)[2] == 0  # 0.6 − 0.9 + 0.1 is below zero
    assert FedDisco(1.0, 0.0).weights([disco_update(10, 5.0)]) == [10]  # nobody would be left
    state = ServerState({"model.w": torch.zeros(1)})
    after = FedDisco(0.5, 0.1).aggregate(state, iter(enumerate(updates)), federation.env())
    mean = sum(w * u.weight for w, u in zip(found, updates, strict=True)) / sum(found)
    assert float(after.shared["model.w"]) == pytest.approx(mean)
    assert after.shared.keys() == {"model.w"}


def test_a_clients_discrepancy_is_its_distance_from_equal_shares() -> None:
    people, env = federation.population(), federation.env()
    method = FedDisco()
    shared, data = method.init(env).shared, people.client(1)
    sent = method.client_update(shared, {}, data, env.at(1)).update.tensors[DISCREPANCY]
    counts = [data.train.labels.tolist().count(c) for c in range(3)]
    wanted = math.sqrt(sum((n / sum(counts) - 1 / 3) ** 2 for n in counts))
    assert float(sent) == pytest.approx(wanted)


def test_scaffold_can_count_clients_alike_as_its_paper_does() -> None:
    people, env = federation.population(), federation.env()
    method = SCAFFOLD(server_mean="uniform", local=LocalSGD(batch_size=8, lr=0.1))
    state = method.init(env)
    sent = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 1, 3)
    ]
    assert len({update.weight for _, update in sent}) == 3
    after = method.aggregate(state, iter(sent), env).shared
    for name in state.shared:
        plain = torch.stack([update.tensors[name].double() for _, update in sent]).mean(0)
        torch.testing.assert_close(after[name].double(), plain, rtol=1e-5, atol=1e-7)
