"""DeepAFL, SAFLe and streaming ridge: T27, T28, T29."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.analytic.deepafl import DeepAFL
from fedcord.algorithms.analytic.features import FeatureMap, random_map
from fedcord.algorithms.analytic.fedhip import FedHiP
from fedcord.algorithms.analytic.membership import forget, model_difference
from fedcord.algorithms.analytic.safle import SAFLe, one_hot_tables
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError
from fedcord.experiment.invariance import check_invariance
from fedcord.ops.anchored import sandwiched_solve
from fedcord.ops.ridge import solve_ridge
from tests.algorithms.analytic.samples import (
    NARROW,
    client,
    dealt,
    env,
    gap,
    one_hot,
    samples,
    trained,
    updates,
    weight,
)

DATA = samples(90)
PARTS = DATA.labels.argsort(stable=True).tensor_split(5)


def plain_deepafl(method: DeepAFL, blocks: int) -> tuple[list[float], Tensor]:
    """Two solves per block on pooled samples, with no algebra saved: objectives and last W."""
    phi = method.features.mapping({}, env())(DATA.inputs)
    y, ridge = one_hot(DATA.labels), float(method.ridge)
    eye = torch.eye(phi.shape[1], dtype=torch.float64)

    def fit(phi: Tensor) -> tuple[Tensor, float]:
        w = torch.linalg.solve(phi.T @ phi + ridge * eye, phi.T @ y)
        return w, float(((y - phi @ w) ** 2).sum() + ridge * (w**2).sum())

    w, objective = fit(phi)
    objectives = [objective]
    for block in range(blocks):
        units = method.units(block, env())(phi)
        omega = sandwiched_solve(units.T @ units, units.T @ (y - phi @ w), w, method.block_ridge)
        phi = phi + units @ omega
        w, objective = fit(phi)
        objectives.append(objective)
    return objectives, w


@pytest.mark.parametrize("refresh", [1, 2, 10])
def test_t27_one_round_per_block_equals_two_and_the_objective_never_rises(refresh: int) -> None:
    method = DeepAFL(blocks=4, width=10, ridge=0.5, features=NARROW, refresh=refresh)
    state = trained(method, dealt(DATA, PARTS))
    objectives, wanted = plain_deepafl(method, 4)
    assert gap(weight(state), wanted) < 1e-8
    found = state.private["objective"].tolist()
    assert found == pytest.approx(objectives, rel=1e-8)
    assert all(after <= before + 1e-9 for before, after in pairwise(found))
    assert found[-1] < 0.98 * found[0]


def test_the_first_features_can_be_those_of_the_paper() -> None:
    """Φ₀ = tanh(XA + a) with A [I, W] and a [W] uniform in ±1/√I, and nothing else."""
    first = FeatureMap(expansion="tanh", width=300, unit=False, bias=False)
    matrix, offset = random_map(0, "tanh", 8, 300)
    phi = first.mapping({}, env())(DATA.inputs)
    torch.testing.assert_close(phi, torch.tanh(DATA.inputs.double() @ matrix + offset))
    for drawn in (matrix, offset):
        assert float(drawn.abs().max()) < 8**-0.5
        assert float(drawn.std()) == pytest.approx((3 * 8) ** -0.5, rel=0.1)
    method = DeepAFL(blocks=2, width=10, ridge=0.5, features=replace(first, width=20))
    _, wanted = plain_deepafl(method, 2)
    assert gap(weight(trained(method, dealt(DATA, PARTS))), wanted) < 1e-8


def test_t27_later_rounds_send_less() -> None:
    method = DeepAFL(blocks=3, width=10, features=NARROW)
    state = method.init(env())
    sizes = [
        sum(spec.shape[0] if spec.shape else 1 for spec in specs.values())
        for specs in (method.expected_update(state.shared, env(r, 3)) for r in range(2))
    ]
    assert sizes[1] < sizes[0]


def test_deepafl_and_its_predictions_do_not_depend_on_the_partition() -> None:
    method = DeepAFL(blocks=2, width=10, features=NARROW)
    assert check_invariance(method, dealt(DATA, PARTS), env()).difference < 1e-8
    one, many = (trained(method, c) for c in ([client(DATA)], dealt(DATA, PARTS)))
    a, b = (method.predictor(s.model, {}, env()).scores(DATA.inputs[:9]) for s in (one, many))
    assert torch.allclose(a, b, atol=1e-9)


def test_deepafl_at_an_infinite_block_ridge_is_ridge_regression() -> None:
    flat = DeepAFL(blocks=2, width=10, ridge=0.5, block_ridge=1e15, features=NARROW)
    _, wanted = plain_deepafl(flat, 0)
    assert gap(weight(trained(flat, dealt(DATA, PARTS))), wanted) < 1e-8


PERSONAL = DeepAFL(blocks=3, width=10, ridge=0.5, features=NARROW, personal=True)


def last_features(method: DeepAFL, state: ServerState, inputs: Tensor) -> Tensor:
    """Φ_T, block by block."""
    phi = method.features.mapping({}, env())(inputs)
    for block in range(method.blocks):
        phi = phi + method.units(block, env())(phi) @ state.shared[f"block{block}.omega"]
    return phi


@pytest.mark.parametrize("number", [0, 3])
def test_t10_a_personal_last_layer_is_the_direct_solution_with_own_samples_weighted(
    number: int,
) -> None:
    clients = dealt(DATA, PARTS)
    state = trained(PERSONAL, clients)
    memory = PERSONAL.personalize(state.model, {}, clients[number], env().at(number))
    phi, y = last_features(PERSONAL, state, DATA.inputs), one_hot(DATA.labels)
    weight_of = torch.ones(90, 1, dtype=torch.float64)
    weight_of[PARTS[number]] += memory["head.alpha"]
    left = phi.T @ (weight_of * phi) + 0.5 * torch.eye(21, dtype=torch.float64)
    wanted = torch.linalg.solve(left, phi.T @ (weight_of * y))
    assert gap(memory["head.weight"], wanted) < 1e-8
    inputs = DATA.inputs[:9]
    scores = PERSONAL.predictor(state.model, memory, env()).scores(inputs)
    assert torch.allclose(scores, last_features(PERSONAL, state, inputs) @ wanted)


def test_t13_its_weight_has_the_fewest_mistakes_when_samples_are_left_out_one_by_one() -> None:
    """Blocks are kept: they are shared, and only the last layer is fitted again."""
    own = torch.arange(0, 90, 6)
    rest = torch.tensor([i for i in range(90) if i % 6])
    clients = dealt(DATA, [own, rest])
    state = trained(PERSONAL, clients)
    memory = PERSONAL.personalize(state.model, {}, clients[0], env().at(0))
    phi, y = last_features(PERSONAL, state, DATA.inputs), one_hot(DATA.labels)
    scored = []
    for relative in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
        alpha, mistakes, square = relative * 90 / len(own), 0, 0.0
        for left_out in own.tolist():
            w = torch.ones(90, 1, dtype=torch.float64)
            w[own] += alpha
            w[left_out] = 0.0
            left = phi.T @ (w * phi) + 0.5 * torch.eye(21, dtype=torch.float64)
            error = y[left_out] - phi[left_out] @ torch.linalg.solve(left, phi.T @ (w * y))
            mistakes += int((y[left_out] - error).argmax()) != int(DATA.labels[left_out])
            square += float((error**2).sum())
        scored.append((mistakes, square, alpha))
    assert float(memory["head.alpha"]) == pytest.approx(min(scored)[2])


def test_t10_personal_last_layers_do_not_depend_on_how_others_samples_are_dealt() -> None:
    certificate = check_invariance(PERSONAL, dealt(DATA, PARTS), env())
    assert certificate.difference < 1e-8
    state = trained(PERSONAL, dealt(DATA, PARTS))
    # and it is not for want of personalisation
    memory = PERSONAL.personalize(state.model, {}, dealt(DATA, PARTS)[0], env().at(0))
    assert gap(memory["head.weight"], weight(state)) > 1e-3


def test_a_personal_layer_without_samples_or_blocks_is_what_it_should_be() -> None:
    clients = dealt(DATA, PARTS)
    state = trained(PERSONAL, clients)
    empty = PERSONAL.personalize(state.model, {}, client(DATA, slice(0, 0)), env().at(9))
    assert torch.equal(empty["head.weight"], weight(state))
    plain = replace(PERSONAL, personal=False)
    assert plain.traits.personalizes is False
    assert "metric.gram" not in trained(plain, clients).model
    flat = replace(PERSONAL, block_ridge=1e15)
    fedhip = FedHiP(ridge=0.5, features=NARROW)
    own = [
        method.personalize(trained(method, clients).model, {}, clients[1], env().at(1))
        for method in (flat, fedhip)
    ]
    assert gap(own[0]["head.weight"], own[1]["head.weight"]) < 1e-8


SAFLE = SAFLe(levels=3, bits=2, groups=7)


def test_t28_look_ups_equal_the_product_with_sparse_features() -> None:
    state = trained(SAFLE, dealt(DATA, PARTS))
    features = SAFLE.features.mapping(state.shared, env())(DATA.inputs)
    tables = one_hot_tables(SAFLE.indices(state.shared, env())(features), 4)
    assert tables.shape == (90, 28)
    assert tables.sum(1).tolist() == [7.0] * 90
    scores = SAFLE.predictor(state.model, {}, env()).scores(DATA.inputs)
    assert torch.allclose(scores, tables @ weight(state))


def test_t28_counts_are_integers_equal_in_every_bit_for_any_partition() -> None:
    method = SAFLe(levels=3, bits=2, groups=7, thresholds="fixed")
    one, many = (trained(method, c) for c in ([client(DATA)], dealt(DATA, PARTS)))
    for name in ("sum.gram", "sum.moment"):
        assert one.private[name].dtype == torch.int64
        assert torch.equal(one.private[name], many.private[name])
    assert torch.equal(weight(one), weight(many))


def test_t28_every_group_beyond_the_first_lacks_a_direction() -> None:
    stats = SAFLE.stats_of(trained(SAFLE, dealt(DATA, PARTS)).private)
    rank = int(torch.linalg.matrix_rank(stats.gram_matrix(), hermitian=True))
    assert rank <= 7 * (4 - 1) + 1


def test_thresholds_stand_at_quantiles_of_sums() -> None:
    state = trained(SAFLE, dealt(DATA, PARTS))
    x = DATA.inputs.double()
    assert torch.allclose(state.shared["bucket.mean"], x.mean(0))
    assert torch.allclose(state.shared["bucket.deviation"], x.std(0, unbiased=False))
    middle = SAFLe(levels=1, bits=1, groups=8)
    state = trained(middle, dealt(DATA, PARTS))
    bits = middle.indices(state.shared, env())(x)
    wanted = (x > x.mean(0)).long()
    assert sorted(bits.T.tolist()) == sorted(wanted.T.tolist())


def test_safle_with_fixed_thresholds_forgets_exactly_and_otherwise_says_why() -> None:
    method = SAFLe(levels=3, bits=2, groups=7, thresholds="fixed")
    clients = dealt(DATA, PARTS)
    state = trained(method, clients)
    sent = updates(method, state, clients, env())
    found = forget(method, state, 3, sent[3][1], env())
    wanted = trained(method, [c for k, c in enumerate(clients) if k != 3])
    assert torch.equal(found.private["sum.gram"], wanted.private["sum.gram"])
    assert model_difference(found, wanted) == 0
    with pytest.raises(ConfigError, match="thresholds were made with that client"):
        forget(SAFLE, trained(SAFLE, clients), 3, sent[3][1], env())


def test_t29_streaming_ridge_equals_the_batch_solution() -> None:
    x, y = FeatureMap(width=15).mapping({}, env())(DATA.inputs), one_hot(DATA.labels)
    gamma = 0.4
    r = torch.eye(16, dtype=torch.float64) / gamma
    w = torch.zeros(16, 3, dtype=torch.float64)
    for a, b in zip(x.split(13), y.split(13), strict=True):
        inner = torch.eye(len(a), dtype=torch.float64) + a @ r @ a.T
        r = r - r @ a.T @ torch.linalg.solve(inner, a @ r)
        w = w + r @ a.T @ (b - a @ w)
    assert gap(solve_ridge(x.T @ x, x.T @ y, gamma)[0], w) < 1e-7


def test_rounding_in_sums_of_squares_does_not_move_a_constant_features_bits() -> None:
    """Another partition can leave another last bit there, which a root makes 1e-8."""
    data = samples(50)
    data.inputs[:, 2] = 0.7
    state = SAFLE.init(env())
    ((_, sent),) = updates(SAFLE, state, [client(data)], env())
    found = []
    for steps in (0, 1, 4):
        square = sent.tensors["spread.square"].clone()
        for _ in range(steps):
            square = torch.nextafter(square, torch.full_like(square, torch.inf))
        rounded = replace(sent, tensors={**sent.tensors, "spread.square": square})
        shared = SAFLE.aggregate(state, iter([(0, rounded)]), env()).shared
        assert float(shared["bucket.deviation"][2]) == 0.0
        found.append(SAFLE.indices(shared, env())(data.inputs.double()))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
