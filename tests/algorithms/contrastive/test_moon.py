"""Invariants of MOON (specification prototype, section 5), and the loss against a slow loop."""

import math

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.moon import MOON, model_contrast
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.core.contract import ServerState
from fedcord.core.tensors import hash_tensors, num_bytes, select
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests import federation

BOTH = pytest.mark.parametrize(
    "values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"]
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slow_contrast(own: Tensor, near: Tensor, far: Tensor, temperature: float) -> float:
    """The paper's equation, example by example."""

    def power(a: Tensor, b: Tensor) -> float:
        cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        return math.exp(cosine / temperature)

    losses = [
        -math.log(power(z, g) / (power(z, g) + power(z, p)))
        for z, g, p in zip(own.double(), near.double(), far.double(), strict=True)
    ]
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_5_loss_is_the_papers(temperature: float) -> None:
    own, near, far = (draw(6, 5, seed=seed) for seed in range(3))
    found = float(model_contrast(own, near, far, temperature))
    assert found == pytest.approx(slow_contrast(own, near, far, temperature), rel=1e-5)


def test_5_equal_models_give_log_2_and_no_gradient() -> None:
    own, near = draw(4, 5).requires_grad_(), draw(4, 5, seed=1)
    loss = model_contrast(own, near, near.clone(), 0.5)
    (gradient,) = torch.autograd.grad(loss, own)
    assert float(loss.detach()) == pytest.approx(math.log(2))
    assert torch.equal(gradient, torch.zeros_like(own))


def test_5_loss_is_positive_and_bounded() -> None:
    own = draw(1, 5)
    worst = float(model_contrast(own, -own, own, 0.5))
    best = float(model_contrast(own, own, -own, 0.5))
    assert worst == pytest.approx(math.log(1 + math.exp(2 / 0.5)), rel=1e-6)
    assert 0 < best < math.log(2) < worst


def test_5_dead_features_leave_loss_and_gradient_finite() -> None:
    own = torch.zeros(2, 3, requires_grad=True)
    loss = model_contrast(own, draw(2, 3), draw(2, 3, seed=1), 0.5)
    (gradient,) = torch.autograd.grad(loss, own)
    assert float(loss.detach()) == pytest.approx(math.log(2))
    assert torch.equal(gradient, torch.zeros(2, 3))


@BOTH
@pytest.mark.parametrize("local", [LocalSGD(), LocalSGD(clip=1e9)], ids=["plain", "clipped"])
def test_5_no_weight_is_fedavg_bit_for_bit(values: dict[str, object], local: LocalSGD) -> None:
    moon, fedavg = MOON(contrast_weight=0.0, local=local), FedAvg(local)
    assert run(moon, values)[0] == run(fedavg, values)[0]
    assert run(MOON(contrast_weight=2.0, local=local), values)[0] != run(fedavg, values)[0]


def run(method: MOON | FedAvg, values: dict[str, object]) -> tuple[str, list[RoundRecord]]:
    people, env = federation.population(values), federation.env(values)
    records: list[RoundRecord] = []

    def note(_: ServerState, record: RoundRecord) -> None:
        records.append(record)

    reached = federation.sequential(method, env.task, people)
    schedule = Schedule(2, lambda _: [0, 1, 3])
    state = run_rounds(method, reached, env, method.init(env), schedule, note)
    return hash_tensors(state.shared), records


def test_5_the_first_visit_is_plain_cross_entropy() -> None:
    people, env = federation.population(), federation.env()
    shared = FedAvg().init(env).shared
    one = MOON().client_update(shared, {}, people.client(0), env.at(0)).update
    two = FedAvg().client_update(shared, {}, people.client(0), env.at(0)).update
    assert hash_tensors(one.tensors) == hash_tensors(two.tensors)


def test_5_previous_is_the_local_model_not_the_average() -> None:
    people, env = federation.population(), federation.env()
    shared = MOON().init(env).shared
    result = MOON().client_update(shared, {}, people.client(0), env.at(0))
    kept = select(result.memory, "previous")
    assert hash_tensors(kept) == hash_tensors(select(result.update.tensors, MODEL))
    assert hash_tensors(kept) != hash_tensors(select(shared, MODEL))


@BOTH
def test_5_previous_equal_to_global_trains_as_cross_entropy(values: dict[str, object]) -> None:
    """Value log 2 and gradient 0 at every point, so only the reported loss is shifted."""
    people, env = federation.population(values), federation.env(values)
    local = LocalSGD(clip=1e9)
    shared = MOON(local=local).init(env).shared
    memory = {name.replace("model.", "previous.", 1): t for name, t in shared.items()}
    data, here = people.client(0), env.at(0)
    held = MOON(3.0, local=local).client_update(shared, memory, data, here).update
    free = FedAvg(local).client_update(shared, {}, data, here).update
    for name, tensor in free.tensors.items():
        assert torch.allclose(tensor, held.tensors[name], atol=1e-6)
    expected = free.metrics["train_loss"] + 3.0 * math.log(2)
    assert held.metrics["train_loss"] == pytest.approx(expected, rel=1e-5)


@BOTH
def test_5_frozen_models_stay_as_they_were(values: dict[str, object]) -> None:
    people, env = federation.population(values), federation.env(values)
    method = MOON()
    shared = method.init(env).shared
    first = method.client_update(shared, {}, people.client(0), env.at(0))
    before = hash_tensors(shared), hash_tensors(first.memory)
    method.client_update(shared, first.memory, people.client(0), env.at(0))
    assert (hash_tensors(shared), hash_tensors(first.memory)) == before


def test_5_a_client_that_is_skipped_keeps_its_previous_model() -> None:
    people, env = federation.population(), federation.env()
    method = MOON()
    reached = federation.sequential(method, env.task, people)
    turns = [[0, 1], [1, 3], [0, 3]]
    after: list[str] = []

    def note(_: ServerState, record: RoundRecord) -> None:
        after.append(hash_tensors(reached.gather_memory()[0]))

    run_rounds(method, reached, env, method.init(env), Schedule(3, lambda r: turns[r]), note)
    assert after[0] == after[1] != after[2]


def test_5_projection_sends_no_unused_head() -> None:
    """Linear(d, d), Linear(d, p), and a classifier on the projection in place of the network's."""
    env = federation.env()
    shared = MOON(head="projection", projection_width=7).init(env).shared
    d, p, classes = 16, 7, 3
    encoder = 8 * 16 + 16
    floats = encoder + d * d + d + d * p + p + p * classes + classes
    assert num_bytes(shared) == 4 * floats


@BOTH
def test_5_projection_trains_all_it_sends_and_predicts(values: dict[str, object]) -> None:
    people, env = federation.population(values), federation.env(values)
    method = MOON(head="projection", projection_width=7)
    shared = method.init(env).shared
    first = method.client_update(shared, {}, people.client(0), env.at(0))
    second = method.client_update(shared, first.memory, people.client(0), env.at(0))
    sent = second.update.tensors
    assert sent.keys() == shared.keys()
    still = [n for n, t in sent.items() if t.is_floating_point() and torch.equal(t, shared[n])]
    assert still == []
    inputs = env.task.prepare(people.test.inputs)
    made = method.predictor(shared, {}, env)
    assert made.scores(inputs).shape == (300, 3)
    assert made.features is not None
    assert made.features(inputs).features.shape == (300, 7)


def test_15_8_equal_seeds_give_equal_runs() -> None:
    method, state = MOON(), torch.get_rng_state()
    first, second = run(method, federation.VECTOR), run(method, federation.VECTOR)
    assert first[0] == second[0]
    assert [r.train_loss for r in first[1]] == [r.train_loss for r in second[1]]
    assert torch.equal(state, torch.get_rng_state())
