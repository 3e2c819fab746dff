"""The head against independent solutions: scikit-learn, AFL, direct solves, other dealings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.fedhip import GRIDS
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError
from fedcord.core.examples import Examples
from fedcord.core.tensors import prefixed
from fedcord.experiment.invariance import check_invariance
from tests.algorithms.accord.encoders import (
    CLASSES,
    MIXED,
    at_sums,
    client,
    drawn_encoder,
    gap,
    method,
    pooled_features,
    run,
    solved,
    sums_of,
    with_encoders,
)
from tests.federation import VECTOR, examples, task

SAMPLES = examples(90, seed=3)
TEST = examples(50, seed=4)


def dealt(owners: list[int], num_clients: Any) -> Any:
    places = torch.tensor(owners)
    return [client(SAMPLES, (places == k).nonzero().flatten()) for k in range(num_clients)]


@settings(max_examples=25)
@given(
    owners=st.lists(st.integers(0, 4), min_size=len(SAMPLES), max_size=len(SAMPLES)),
    chosen=st.sets(st.integers(0, 4), min_size=1),
    ridge=st.sampled_from([0.01, 0.5, 20.0]),
    combine=st.sampled_from(["concat", "mean"]),
)
def test_head_is_the_ridge_regression_of_pooled_samples_for_any_partition(
    owners: Any, chosen: Any, ridge: Any, combine: Any
) -> None:
    accord = method(ridge=ridge, joint={"combine": combine})
    env = at_sums(accord)
    state = with_encoders(accord, env, sorted(chosen))
    after = solved(accord, state, dealt(owners, 5), env)
    features, targets = pooled_features(accord, state, SAMPLES, env)
    oracle = Ridge(alpha=ridge, fit_intercept=False, solver="svd").fit(features, targets)
    wanted = torch.from_numpy(oracle.coef_.T)
    assert gap(after.result["head.weight"], wanted) <= 1e-8


@pytest.mark.parametrize(
    "joint",
    [{"projection": 7}, {"expansion": "relu", "width": 30}, {"expansion": "rff", "width": 30}],
)
def test_so_it_is_behind_projection_and_expansion_whose_width_is_as_asked(joint: Any) -> None:
    accord = method(ridge=0.5, joint=joint)
    env = at_sums(accord, MIXED)
    state = with_encoders(accord, env, [0, 1, 2])
    features, targets = pooled_features(accord, state, SAMPLES, env)
    assert features.shape == (len(SAMPLES), joint.get("projection", joint.get("width")) + 1)
    after = solved(accord, state, dealt([0, 1, 2] * 30, 3), env)
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(features, targets)
    assert gap(after.result["head.weight"], torch.from_numpy(oracle.coef_.T)) <= 1e-8


def test_a_projection_wider_than_the_features_leaves_them_alone() -> None:
    plain, narrow = method(), method(joint={"projection": 500})
    env = at_sums(plain)
    state = with_encoders(plain, env, [0, 1])
    inputs = env.task.prepare(TEST.inputs)
    assert torch.equal(
        plain.joint.mapping(state.shared, env)(inputs),
        narrow.joint.mapping(state.shared, env)(inputs),
    )


def test_joined_features_have_length_one_and_a_mean_is_the_mean_of_unit_vectors() -> None:
    accord = method()
    env = at_sums(accord)
    state = with_encoders(accord, env, [0, 1, 2])
    inputs = env.task.prepare(TEST.inputs)
    joined = accord.joint.mapping(state.shared, env)(inputs)
    assert torch.allclose(joined[:, :-1].norm(dim=1), torch.ones(len(TEST), dtype=torch.float64))
    assert bool((joined[:, -1] == 1).all())
    units = []
    for k in range(3):
        network = env.task.initial_network(torch.Generator(), k)
        own = drawn_encoder(env.task, 5 + k, k)
        network.load_state_dict({**network.state_dict(), **own})
        with torch.no_grad():
            features = network.eval().features(inputs).double()  # type: ignore[operator]
        units.append(features / features.norm(dim=1, keepdim=True))
    mean = method(joint={"combine": "mean"}).joint.mapping(state.shared, env)(inputs)
    assert torch.allclose(mean[:, :-1], torch.stack(units).mean(0), atol=1e-6)


def test_identical_encoders_of_everybody_are_afl_on_that_encoder() -> None:
    accord = method(ridge=0.3)
    env = at_sums(accord)
    clients = dealt([k % 4 for k in range(len(SAMPLES))], 4)
    state = with_encoders(accord, env, [0, 1, 2, 3], same=True)
    found = solved(accord, state, clients, env)
    afl = AFL(ridge=0.3, features=FeatureMap(source="model", expansion="none"))
    at = Env(env.task, 0)
    encoder = prefixed("model", drawn_encoder(env.task, 5, 0))
    start = replace(afl.init(at), shared=encoder)
    updates = [
        (k, afl.client_update(encoder, {}, data, at.at(k)).update) for k, data in enumerate(clients)
    ]
    wanted = afl.aggregate(start, iter(updates), at)
    inputs = env.task.prepare(TEST.inputs)
    scores = [
        algorithm.predictor(end.model, {}, env).scores(inputs)
        for algorithm, end in ((accord, found), (afl, wanted))
    ]
    assert gap(scores[0], scores[1]) <= 1e-8


def test_one_client_is_its_own_encoder_under_its_own_ridge_regression() -> None:
    accord = method(ridge=0.5)
    states, records = run(accord, sizes=(60,))
    assert [record.refused for record in records] == [()] * 3
    env, data = at_sums(accord), examples(60, 0)
    features, targets = pooled_features(accord, states[-2], data, env)
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(features, targets)
    assert gap(states[-1].result["head.weight"], torch.from_numpy(oracle.coef_.T)) <= 1e-8


def test_clients_that_give_no_encoder_still_give_their_sums() -> None:
    sizes = (20, 25, 12, 60)
    accord = method(ridge=0.5, selection={"max_encoders": 1})
    states, records = run(accord, sizes=sizes)
    assert [record.refused for record in records] == [()] * 3
    assert states[-1].shared["chosen"].tolist() == [3]  # the largest; client 0 is not asked
    assert states[-1].private["ledger.client"].tolist() == [0, 1, 2, 3]
    parts = [examples(size, k) for k, size in enumerate(sizes)]
    pooled = Examples(torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts]))
    features, targets = pooled_features(accord, states[-1], pooled, at_sums(accord))
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="svd").fit(features, targets)
    assert gap(states[-1].result["head.weight"], torch.from_numpy(oracle.coef_.T)) <= 1e-8


@pytest.mark.parametrize("rule", ["size", "all"])
def test_balanced_is_ridge_regression_with_classes_of_equal_weight(rule: str) -> None:
    accord = method(ridge=0.5, balanced=True, selection={"rule": rule})
    sizes = (40, 25, 12, 60)
    states, _ = run(accord, sizes=sizes)
    parts = [examples(size, k) for k, size in enumerate(sizes)]
    pooled = Examples(torch.cat([p.inputs for p in parts]), torch.cat([p.labels for p in parts]))
    features, targets = pooled_features(accord, states[-1], pooled, at_sums(accord))
    count = np.bincount(pooled.labels.numpy(), minlength=CLASSES)
    weight = (len(pooled) / (CLASSES * count))[pooled.labels.numpy()]
    oracle = Ridge(alpha=0.5, fit_intercept=False, solver="cholesky")
    oracle.fit(features, targets, sample_weight=weight)
    assert gap(states[-1].result["head.weight"], torch.from_numpy(oracle.coef_.T)) <= 1e-8


@pytest.mark.parametrize("balanced", [False, True])
def test_a_personal_head_is_the_direct_solve_at_the_weight_leave_one_out_prefers(
    balanced: Any,
) -> Any:
    accord = method(ridge=0.5, personal=True, balanced=balanced)
    env = at_sums(accord)
    clients = dealt([0] * 14 + [1] * 46 + [2] * 30, 3)
    state = with_encoders(accord, env, [0, 2])
    weight = torch.tensor([0.5, 1.5, 2.0], dtype=torch.float64) if balanced else torch.ones(3)
    if balanced:
        state = replace(state, shared={**state.shared, "class_weight": weight})
    after = solved(accord, state, clients, env)
    found = accord.personalize(after.model, {}, clients[0], env.at(0))["head.weight"]
    pooled_x, pooled_y = pooled_features(accord, state, SAMPLES, env)
    pooled_w = weight.double()[SAMPLES.labels][:, None]
    own = slice(0, 14)
    eye = torch.eye(pooled_x.shape[1], dtype=torch.float64)

    def solve(alpha: float, left_out: int | None = None) -> torch.Tensor:
        times = torch.ones(len(SAMPLES), 1, dtype=torch.float64)
        times[own] += alpha
        if left_out is not None:
            times[left_out] = 0
        scaled = pooled_x * times * pooled_w
        found: torch.Tensor = torch.linalg.solve(
            scaled.T @ pooled_x + 0.5 * eye, scaled.T @ pooled_y
        )
        return found

    scored = []
    for alpha in (a * len(SAMPLES) / 14 for a in GRIDS["relative"]):
        rows = [pooled_x[i] @ solve(alpha, i) for i in range(14)]
        mistakes = sum(int(r.argmax() != SAMPLES.labels[i]) for i, r in enumerate(rows))
        loss = sum(
            float(pooled_w[i] * (pooled_y[i] - r).square().sum()) for i, r in enumerate(rows)
        )
        scored.append((mistakes, loss, alpha))
    assert gap(found, solve(min(scored)[2])) <= 1e-7
    assert len({round(loss, 6) for _, loss, _ in scored}) == len(scored)  # the choice matters


def test_personal_heads_are_used_by_their_client_and_made_only_when_asked_for() -> None:
    accord = method(ridge=0.5, personal=True)
    env = at_sums(accord)
    clients = dealt([0] * 14 + [1] * 76, 2)
    after = solved(accord, with_encoders(accord, env, [0, 1]), clients, env)
    memory = accord.personalize(after.model, {}, clients[0], env.at(0))
    inputs = env.task.prepare(TEST.inputs)
    own = accord.predictor(after.model, memory, env.at(0)).scores(inputs)
    features = accord.joint.mapping(after.shared, env)(inputs)
    assert gap(own, features @ memory["head.weight"]) <= 1e-12
    plain = method(ridge=0.5)
    assert plain.traits.personalizes is False
    assert set(solved(plain, with_encoders(plain, env, [0, 1]), clients, env).result) == {
        "head.weight",
        "head.seen",
        "head.ridge",
    }


@pytest.mark.parametrize("personal", [False, True])
def test_certificate_given_the_encoders_no_dealing_moves_the_head(personal: Any) -> None:
    accord = method(personal=personal)
    clients = dealt([k % 5 for k in range(len(SAMPLES))], 5)
    found = check_invariance(accord, clients, Env(task(VECTOR), 0))
    assert found.given == "the encoders"
    assert len(found.dealings) == 5
    assert found.difference <= 1e-8


def test_certificate_the_encoders_themselves_do_move() -> None:
    accord = method()
    clients = dealt([k % 5 for k in range(len(SAMPLES))], 5)
    other = dealt(sorted(k % 5 for k in range(len(SAMPLES))), 5)
    env = Env(task(VECTOR), 0, 1, 3)
    shared = {"chosen": torch.tensor([0, 1, 2, 3, 4])}
    first, second = (
        accord.client_update(shared, {}, data[0], env.at(0)).update.tensors
        for data in (clients, other)
    )
    name = next(name for name in first if name.startswith("model."))
    assert not torch.equal(first[name], second[name])


def test_sums_of_other_encoders_are_refused() -> None:
    accord = method()
    env = at_sums(accord)
    clients = dealt([k % 2 for k in range(len(SAMPLES))], 2)
    state, other = (with_encoders(accord, env, [0, 1], same=same) for same in (False, True))
    updates = [sums_of(accord, state, clients, env)[0], sums_of(accord, other, clients, env)[1]]
    with pytest.raises(Exception, match="client 1 used other features than agreed"):
        accord.aggregate(state, iter(updates), env)


def test_personal_heads_without_a_ridge_are_refused_before_anything_happens() -> None:
    with pytest.raises(ConfigError, match=r"personal and ridge = 0: .* use ridge=gcv or a number"):
        method(personal=True, ridge=0)
    assert method(personal=True, ridge=1e-6).personal
    assert method(ridge=0).ridge == 0
