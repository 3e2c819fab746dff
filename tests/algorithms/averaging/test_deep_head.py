"""Accord's head on the encoder of an averaging method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.linear_model import Ridge

from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.averaging.deep_head import DeepHead, as_encoder
from fedcord.algorithms.averaging.exact_head import ExactHead
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.seen_layers import SeenLayers
from fedcord.core.contract import Env, ServerState
from fedcord.core.errors import ConfigError
from fedcord.core.tensors import hash_tensors
from tests import federation

QUICK = LocalSGD(lr=0.1, schedule="cosine")  # the schedule sees how many rounds there are
VALUES: dict[str, object] = {**federation.IMAGE, "models": ["cnn:3-4,fc=6"]}
DEEP = JointFeatures(layers=SeenLayers(maps="all"))
SIZES = (30, 18, 25)
PEOPLE = federation.population(VALUES, SIZES)


def after(method: Any, rounds: int) -> ServerState:
    """The state after so many rounds of so many."""
    at = Env(federation.task(VALUES), 0, num_rounds=rounds)
    state: ServerState = method.init(at)
    for round_ in range(rounds):
        here = replace(at, round=round_)
        updates = {
            k: method.client_update(state.shared, {}, PEOPLE.client(k), here.at(k)).update
            for k in range(len(SIZES))
        }
        state = method.aggregate(state, iter(updates.items()), here)
    return state


def scores(method: Any, state: ServerState) -> torch.Tensor:
    task = federation.task(VALUES)
    made = method.predictor(state.model, {}, Env(task, 0, 2, 3))
    answers: torch.Tensor = made.scores(task.prepare(PEOPLE.test.inputs))
    return answers


def test_the_network_is_the_inner_methods_and_the_head_stands_beside_it() -> None:
    inner = FedAvg(QUICK)
    ours, alone = after(DeepHead(joint=DEEP, inner=inner), 3), after(inner, 2)
    assert hash_tensors(ours.shared) == hash_tensors(alone.shared)
    assert ours.result["head.weight"].shape == (6 + 4 * 4 + 3 * 4 + 1, 3)


def test_one_round_of_it_is_afl_on_all_stages_of_the_drawn_network() -> None:
    """Two paths to one head: accord's joint features and the analytic family's feature map."""
    features = FeatureMap(source="model", expansion="none", layers=SeenLayers(maps="all"))
    ours, afl = DeepHead(joint=DEEP, ridge=0.3), AFL(ridge=0.3, features=features)
    expected, found = after(ours, 1), after(afl, 1)
    torch.testing.assert_close(found.result["head.weight"], expected.result["head.weight"])
    torch.testing.assert_close(scores(afl, found), scores(ours, expected))


def test_the_head_is_the_ridge_regression_of_all_pooled_maps() -> None:
    state = after(DeepHead(joint=DEEP, ridge=0.3, inner=FedAvg(QUICK)), 3)
    task = federation.task(VALUES)
    env = Env(task, 0, 2, 3)
    seen = DEEP.mapping(as_encoder(state.shared, env), env)
    parts = [PEOPLE.client(k).train for k in range(len(SIZES))]
    x = torch.cat([seen(task.prepare(part.inputs)) for part in parts])
    labels = torch.cat([part.labels for part in parts])
    targets = torch.nn.functional.one_hot(labels, 3).double()
    model = Ridge(alpha=0.3, fit_intercept=False, solver="svd").fit(x.numpy(), targets.numpy())
    found = state.result["head.weight"]
    assert torch.allclose(found, torch.from_numpy(model.coef_.T), atol=1e-7)


def test_without_maps_and_scaling_it_answers_as_the_exact_head() -> None:
    flat, inner = JointFeatures(scaling="none"), FedAvg(QUICK)
    deep, exact = DeepHead(joint=flat, ridge=0.5, inner=inner), ExactHead(ridge=0.5, inner=inner)
    one, other = scores(deep, after(deep, 3)), scores(exact, after(exact, 3))
    torch.testing.assert_close(one.double(), other.double(), rtol=1e-3, atol=1e-4)


def test_before_the_last_round_the_inner_model_answers() -> None:
    method, state = DeepHead(joint=DEEP, inner=FedAvg(QUICK)), after(FedAvg(QUICK), 2)
    assert torch.equal(scores(method, state), scores(FedAvg(QUICK), state))


def test_personal_models_are_refused() -> None:
    with pytest.raises(ConfigError, match="every client has a model of its own, which the common"):
        DeepHead(inner=FedAvg(finetune_epochs=1))


def test_networks_without_stages_are_told() -> None:
    flat = federation.task({**federation.VECTOR, "models": ["mlp:16"]})
    notes = DeepHead(joint=DEEP).review(flat).notes
    assert any("has no stages under its features" in note for note in notes)
    wide = DeepHead(joint=replace(DEEP, width_limit=10)).review(federation.task(VALUES)).errors
    assert any("above joint.width_limit = 10" in error for error in wide)
