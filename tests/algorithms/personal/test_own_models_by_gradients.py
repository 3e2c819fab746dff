"""Ditto, pFedMe, Per-FedAvg and FedRoD: their gradients, and what they reduce to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.bounds.local import Local
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_network
from fedcord.algorithms.personal.ditto import Ditto
from fedcord.algorithms.personal.fedrod import PERSONAL, FedRoD, log_prior
from fedcord.algorithms.personal.meta_gradient import Gradient, meta_gradient
from fedcord.algorithms.personal.per_fedavg import PerFedAvg
from fedcord.algorithms.personal.pfedme import PFedMe
from fedcord.core.contract import ServerState
from fedcord.core.task import tensors_of
from fedcord.core.tensors import hash_tensors, select
from tests import federation
from tests.algorithms.personal.clients import GENERAL, QUICK, VALUES, run


@pytest.mark.parametrize("network", VALUES)
@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_dittos_global_model_is_fedavgs_bit_for_bit(network: str, strength: float) -> None:
    found, wanted = run(Ditto(strength, local=QUICK), network), run(FedAvg(QUICK), network)
    assert hash_tensors(found.state.shared) == hash_tensors(wanted.state.shared)


@pytest.mark.parametrize("network", VALUES)
def test_ditto_without_pull_is_local_training_bit_for_bit(network: str) -> None:
    alone = run(Local(QUICK), network)
    own = run(Ditto(0.0, local=QUICK), network)
    assert own.memories.keys() == alone.memories.keys()
    for client, memory in alone.memories.items():
        assert hash_tensors(own.memories[client]) == hash_tensors(memory)


def test_dittos_own_model_descends_a_penalty_around_the_received_model() -> None:
    """Against autograd on CE + λ/2 ||v − w||² and `torch.optim`."""
    env, data = federation.env().at(0), federation.population().client(0)
    method = Ditto(0.7, personal_epochs=2, local=QUICK)
    drawn = tensors_of(first_network(env))
    away = {name: tensor + 0.1 for name, tensor in drawn.items()}
    shared = {f"model.{name}": tensor for name, tensor in away.items()}
    found = select(method.client_update(shared, {}, data, env).memory, MODEL)
    network, stream = first_network(env), env.generator("batches")
    inputs, labels = env.task.prepare(data.train.inputs), data.train.labels
    descent = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(2):
        for batch in torch.randperm(len(labels), generator=stream).split(8):
            descent.zero_grad()
            far = [(p - away[name]).square().sum() for name, p in network.named_parameters()]
            loss = F.cross_entropy(network(inputs[batch]), labels[batch])
            (loss + 0.35 * torch.stack(far).sum()).backward()
            descent.step()
    for name, tensor in network.state_dict().items():
        assert torch.allclose(found[name], tensor, atol=1e-6)


def test_a_strong_pull_brings_dittos_models_together() -> None:
    def distance(strength: float) -> float:
        done = run(Ditto(strength, local=QUICK), rounds=3)
        gaps = [
            float((memory[name] - done.state.shared[name]).square().sum())
            for memory in done.memories.values()
            for name in memory
        ]
        return sum(gaps)

    far, near = distance(0.01), distance(5.0)
    assert near < far / 2


def test_pfedme_with_one_inner_step_is_fedavg_with_the_product_of_the_rates() -> None:
    method = PFedMe(
        proximal_weight=4.0, personal_steps=1, personal_lr=0.1, local=replace(GENERAL, lr=0.2)
    )
    found, wanted = run(method), run(FedAvg(replace(GENERAL, lr=0.2 * 4.0 * 0.1)))
    for name, tensor in wanted.state.shared.items():
        assert torch.allclose(found.state.shared[name], tensor, atol=1e-5)


def test_pfedme_nears_the_minimum_of_the_envelope_and_leaves_the_reference() -> None:
    """At the minimum ∇f(θ) = λ (w − θ); logistic regression has no kinks on the way."""
    env = federation.env({**federation.VECTOR, "models": ["logistic"]}).at(0)
    data = federation.population().client(0)
    network = first_network(env)
    reference = tensors_of(network)
    inputs, labels = env.task.prepare(data.train.inputs), data.train.labels
    gaps = []
    for steps in (1, 10, 200):
        method = PFedMe(proximal_weight=2.0, personal_steps=steps, personal_lr=0.1)
        _, theta = method.nearby(network, inputs, labels)
        assert hash_tensors(tensors_of(network)) == hash_tensors(reference)
        at = dict(zip(reference, theta, strict=True))
        weights = {name: value.clone().requires_grad_() for name, value in at.items()}
        loss = F.cross_entropy(torch.func.functional_call(network, weights, (inputs,)), labels)
        gradients = torch.autograd.grad(loss, list(weights.values()))
        gap = [
            (g - 2.0 * (reference[name] - at[name])).abs().max()
            for name, g in zip(weights, gradients, strict=True)
        ]
        gaps.append(float(torch.stack(gap).max()))
    assert gaps[0] > 5 * gaps[1]
    assert gaps[2] < 1e-5


def test_pfedmes_reference_moves_by_its_distance_to_the_own_model() -> None:
    env, data = federation.env().at(0), federation.population().client(0)
    method = PFedMe(proximal_weight=3.0, local=LocalSGD(steps=1, lr=0.1))
    shared = method.init(replace(env, client=None)).shared
    done = method.client_update(shared, {}, data, env)
    for name, start in shared.items():
        moved = start - 0.1 * 3.0 * (start - done.memory[name])
        assert torch.allclose(done.update.tensors[name], moved, atol=1e-6)
        assert not torch.equal(done.memory[name], start)


def test_pfedmes_server_goes_part_of_the_way() -> None:
    env, people = federation.env(), federation.population()
    whole, half = PFedMe(local=QUICK), PFedMe(server_step=0.5, local=QUICK)
    state = whole.init(env)
    updates = [
        (k, whole.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 1)
    ]
    mean, between = (m.aggregate(state, iter(updates), env).shared for m in (whole, half))
    for name, start in state.shared.items():
        assert torch.allclose(between[name], (start + mean[name]) / 2, atol=1e-7)


@pytest.mark.parametrize("network", VALUES)
def test_per_fedavg_without_adaptation_is_fedavg_bit_for_bit(network: str) -> None:
    method = PerFedAvg(adaptation_lr=0.0, local=QUICK)
    wanted = run(FedAvg(QUICK), network).state
    assert hash_tensors(run(method, network).state.shared) == hash_tensors(wanted.shared)
    assert not method.traits.personalizes


class _Smooth(nn.Module):
    """A small network in double precision, without kinks."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.above = nn.Linear(4, 5), nn.Linear(5, 3)
        self.double()

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.above(torch.tanh(self.below(inputs)))
        return scores


def _problem() -> tuple[list[Tensor], list[Gradient], list[tuple[Tensor, Tensor]], nn.Module]:
    network, generator = _Smooth(), torch.Generator().manual_seed(3)
    start = [torch.randn(p.shape, generator=generator).double() for p in network.parameters()]
    batches = [
        (
            torch.randn(6, 4, generator=generator).double(),
            torch.randint(3, (6,), generator=generator),
        )
        for _ in range(3)
    ]

    def gradient_on(inputs: Tensor, labels: Tensor) -> Gradient:
        def gradient(values: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            weights = [value.detach().clone().requires_grad_() for value in values]
            loss = _loss(network, weights, inputs, labels)
            return loss.detach(), list(torch.autograd.grad(loss, weights))

        return gradient

    return start, [gradient_on(*batch) for batch in batches], batches, network


def _loss(network: nn.Module, values: Sequence[Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
    named = dict(zip(dict(network.named_parameters()), values, strict=True))
    return F.cross_entropy(torch.func.functional_call(network, named, (inputs,)), labels)


def _gap(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True))


def test_hessian_free_is_the_gradient_after_a_step_as_the_difference_vanishes() -> None:
    """Against autograd through the step; the error of a central difference is of second order."""
    start, (first, second, _), (one, two, _), network = _problem()
    weights, rate = [value.clone().requires_grad_() for value in start], 0.4
    inner = torch.autograd.grad(_loss(network, weights, *one), weights, create_graph=True)
    adapted = [w - rate * g for w, g in zip(weights, inner, strict=True)]
    exact = torch.autograd.grad(_loss(network, adapted, *two), weights)
    gaps = [
        _gap(meta_gradient(start, first, second, rate, delta, first)[1], exact)
        for delta in (1e-1, 1e-2, 1e-3)
    ]
    assert gaps[2] < 1e-6
    for larger, smaller in itertools.pairwise(gaps):
        assert larger / smaller == pytest.approx(100, rel=0.2)
    first_order = meta_gradient(start, first, second, rate, 1e-3)[1]
    assert _gap(first_order, exact) > 1e-2


def test_each_batch_has_its_part_in_the_meta_gradient() -> None:
    """(I − α ∇²f(w; D'')) ∇f(w'; D') with the Hessian written out."""
    start, (on_one, on_two, on_three), (one, two, three), network = _problem()
    rate = 0.4
    value, found = meta_gradient(start, on_one, on_two, rate, 1e-4, on_three)
    adapted = [w - rate * g for w, g in zip(start, on_one(start)[1], strict=True)]
    descent = on_two(adapted)[1]
    assert value == pytest.approx(float(_loss(network, adapted, *two)))
    product = torch.autograd.functional.hvp(
        lambda *values: _loss(network, values, *three), tuple(start), tuple(descent)
    )[1]
    wanted = [d - rate * p for d, p in zip(descent, product, strict=True)]
    assert _gap(found, wanted) < 1e-8
    assert _gap(meta_gradient(start, on_one, on_two, rate, 1e-4)[1], descent) < 1e-15
    assert not torch.equal(one[0], three[0])


@pytest.mark.parametrize("second_order", ["none", "hessian-free"])
def test_per_fedavg_takes_the_step_of_the_meta_gradient(second_order: str) -> None:
    env, data = federation.env().at(0), federation.population().client(0)
    method = PerFedAvg(
        adaptation_lr=0.2, second_order=second_order, local=LocalSGD(steps=1, batch_size=8, lr=0.3)
    )
    shared = method.init(replace(env, client=None)).shared
    done = method.client_update(shared, {}, data, env).update.tensors
    network = first_network(env)
    inputs, labels = env.task.prepare(data.train.inputs), data.train.labels
    rows = [
        torch.randperm(len(labels), generator=env.generator(purpose))[:8]
        for purpose in ("adaptation", "batches", "curvature")
    ]
    one, two, three = ((inputs[r], labels[r]) for r in rows)
    weights = [p.detach().clone().requires_grad_() for p in network.parameters()]
    inner = torch.autograd.grad(_loss(network, weights, *one), weights)
    adapted = [(w - 0.2 * g).detach().requires_grad_() for w, g in zip(weights, inner, strict=True)]
    descent = torch.autograd.grad(_loss(network, adapted, *two), adapted)
    if second_order == "hessian-free":
        product = torch.autograd.functional.hvp(
            lambda *values: _loss(network, values, *three), tuple(weights), tuple(descent)
        )[1]
        descent = tuple(d - 0.2 * p for d, p in zip(descent, product, strict=True))
    close = 1e-6 if second_order == "none" else 2e-4  # differences in single precision
    for name, w, d in zip(shared, weights, descent, strict=True):
        assert torch.allclose(done[name], w.detach() - 0.3 * d, atol=close)


def test_per_fedavg_ends_with_one_step_of_the_clients_own() -> None:
    env, data = federation.env().at(0), federation.population().client(0)
    here = replace(env, round=2)
    method = PerFedAvg(adaptation_lr=0.2, local=QUICK)
    model = method.init(replace(env, client=None)).model
    made = method.personalize(model, {}, data, here)
    network = first_network(env)
    stream = replace(env, round=3).generator("batches")
    rows = torch.randperm(len(data.train), generator=stream)[:8]
    inputs = env.task.prepare(data.train.inputs)[rows]
    F.cross_entropy(network(inputs), data.train.labels[rows]).backward()
    for name, p in network.named_parameters():
        assert p.grad is not None
        assert torch.allclose(made[f"model.{name}"], p.detach() - 0.2 * p.grad, atol=1e-6)
    longer = replace(method, finetune_epochs=2).personalize(model, {}, data, here)
    assert hash_tensors(longer) != hash_tensors(made)


def test_the_balanced_softmax_weighs_classes_by_their_counts() -> None:
    """−log( n_y^γ e^{z_y} / Σ_c n_c^γ e^{z_c} ), term by term."""
    generator = np.random.default_rng(4)
    scores, counts = generator.normal(size=(6, 4)), np.array([5, 0, 1, 12])
    labels = np.array([0, 3, 3, 2, 0, 3])
    for gamma in (0.0, 0.5, 1.0, 1.5):
        terms = []
        for row, label in zip(scores, labels, strict=True):
            shares = [(float(n) ** gamma) * math.exp(z) for n, z in zip(counts, row, strict=True)]
            terms.append(-math.log(shares[label] / sum(shares)))
        prior = log_prior(torch.from_numpy(counts), gamma)
        found = F.cross_entropy(torch.from_numpy(scores) + prior, torch.from_numpy(labels))
        assert float(found) == pytest.approx(sum(terms) / len(terms), rel=1e-6)


@pytest.mark.parametrize("network", VALUES)
def test_fedrod_without_balance_averages_as_fedavg(network: str) -> None:
    """The personal head is on a leaf of its own: nothing of it reaches the generic model."""
    plain = FedAvg(GENERAL) if network == "mlp" else FedAvg(QUICK)
    found = run(FedRoD(balance=0.0, local=plain.local), network)
    wanted = run(plain, network).state
    assert hash_tensors(found.state.shared) == hash_tensors(wanted.shared)
    assert hash_tensors(run(FedRoD(local=plain.local), network).state.shared) != hash_tensors(
        wanted.shared
    )


def test_fedrods_personal_head_learns_what_the_generic_one_leaves() -> None:
    """One step against the closed form: the gradient of CE at the sum of both heads' scores."""
    env, data = federation.env().at(0), federation.population().client(0)
    method = FedRoD(local=LocalSGD(steps=1, batch_size=100, lr=0.5))
    shared = method.init(replace(env, client=None)).shared
    memory = method.client_update(shared, {}, data, env).memory
    assert set(memory) == {f"{PERSONAL}.weight", f"{PERSONAL}.bias"}
    network = first_network(env)
    with torch.no_grad():
        features = network.features(env.task.prepare(data.train.inputs))  # type: ignore[operator]
        excess = network.classify(features).softmax(1)  # type: ignore[operator]
        excess = (excess - F.one_hot(data.train.labels, 3)) / len(data.train)
    assert torch.allclose(memory["personal.weight"], -0.5 * excess.T @ features, atol=1e-6)
    assert torch.allclose(memory["personal.bias"], -0.5 * excess.sum(0), atol=1e-6)
    inputs = env.task.prepare(data.test.inputs)
    own = method.predictor(shared, memory, env).scores(inputs)
    common = method.predictor(shared, {}, env).scores(inputs)
    with torch.no_grad():
        features = network.features(inputs)  # type: ignore[operator]
    more = features @ memory["personal.weight"].T + memory["personal.bias"]
    assert torch.allclose(own, common + more, atol=1e-5)


def test_a_state_of_fedavg_is_one_of_every_method_that_averages_whole_models() -> None:
    env = federation.env()
    first: ServerState = FedAvg().init(env)
    for method in (Ditto(), PFedMe(), PerFedAvg(), FedRoD()):
        assert hash_tensors(method.init(env).shared) == hash_tensors(first.shared)
