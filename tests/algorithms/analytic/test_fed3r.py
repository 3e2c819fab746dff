"""Fed3R and FedNCM: classifiers from sums, against scikit-learn and written-out definitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import cosine_similarity

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.fed3r import Fed3R, normalised
from fedcord.algorithms.analytic.fedncm import FedNCM
from fedcord.algorithms.analytic.membership import forget, model_difference
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.errors import ProtocolError
from fedcord.core.params import build
from fedcord.core.tensors import hash_tensors
from tests.algorithms.analytic.samples import (
    LINEAR,
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
CLIENTS = dealt(DATA, list(DATA.labels.argsort(stable=True).tensor_split((7, 50, 61))))
"""Sorted by class: nearly nobody has all three."""


@pytest.mark.parametrize("wire", ["packed64", "fixed64"])
def test_without_scaling_it_is_afl_with_the_same_ridge_bit_for_bit(wire: str) -> None:
    ours = trained(Fed3R(ridge=0.4, normalise=False, features=NARROW, wire=wire), CLIENTS)
    theirs = trained(AFL(ridge=0.4, features=NARROW, wire=wire), CLIENTS)
    assert hash_tensors(ours.model) == hash_tensors(theirs.model)
    scaled = trained(Fed3R(ridge=0.4, features=NARROW, wire=wire), CLIENTS)
    assert hash_tensors(scaled.model) != hash_tensors(theirs.model)


def test_it_is_ridge_regression_with_columns_of_length_one() -> None:
    with_bias = replace(LINEAR, bias=True)
    found = weight(trained(Fed3R(ridge=0.4, features=with_bias), CLIENTS))
    x = torch.cat([DATA.inputs.double(), torch.ones(90, 1, dtype=torch.float64)], dim=1)
    model = Ridge(alpha=0.4, fit_intercept=False, solver="svd")
    central = torch.from_numpy(model.fit(x.numpy(), one_hot(DATA.labels).numpy()).coef_.T.copy())
    wanted = central / central[:-1].norm(dim=0)
    assert gap(found, wanted) < 1e-10
    assert torch.allclose(found[:-1].norm(dim=0), torch.ones(3, dtype=torch.float64))


def test_a_class_that_nobody_has_stays_zero_and_cannot_win() -> None:
    few = client(DATA, DATA.labels != 1)
    state = trained(Fed3R(), [few])
    assert bool((weight(state)[:, 1] == 0).all())
    scores = Fed3R().predictor(state.model, {}, env()).scores(DATA.inputs)
    assert 1 not in scores.argmax(1)
    assert normalised(torch.zeros(3, 2), has_bias=True).equal(torch.zeros(3, 2))


def test_a_client_can_be_forgotten_exactly() -> None:
    method, at = Fed3R(features=NARROW), env()
    state = trained(method, CLIENTS)
    sent = dict(updates(method, method.init(at), CLIENTS, at))
    left = forget(method, state, 2, sent[2], at)
    without = {k: c for k, c in enumerate(CLIENTS) if k != 2}
    assert model_difference(left, trained(method, list(without.values()))) < 1e-8


def test_random_fourier_features_approach_the_gaussian_kernel() -> None:
    method = build(Fed3R, ALGORITHMS["fed3r-rf"].preset)
    assert (method.features.expansion, method.features.unit) == ("rff", True)
    wide = replace(method.features, width=40_000, bias=False)
    z = wide.all(client(DATA, slice(6)).train, {}, env())
    x = torch.nn.functional.normalize(DATA.inputs[:6].double(), dim=1)
    kernel = torch.exp(-torch.cdist(x, x).square() / (2 * wide.bandwidth**2))
    assert float((z @ z.T - kernel).abs().max()) < 0.03


def test_ncm_is_the_most_similar_class_mean_whatever_the_partition() -> None:
    method = FedNCM(LINEAR)
    state = trained(method, CLIENTS)
    x = DATA.inputs.double()
    means = torch.stack([x[DATA.labels == c].mean(0) for c in range(3)])
    found = method.predictor(state.model, {}, env()).scores(DATA.inputs)
    cosine = torch.from_numpy(cosine_similarity(x.numpy(), means.numpy()))
    assert torch.allclose(found / x.norm(dim=1, keepdim=True), cosine)
    alone = trained(method, [client(DATA)])
    assert gap(weight(state), weight(alone)) < 1e-12


def test_ncm_refuses_sums_of_other_features() -> None:
    method, at = FedNCM(NARROW), env()
    state = method.init(at)
    wrong = updates(FedNCM(FeatureMap(width=20, unit=False)), state, CLIENTS[:1], at)
    with pytest.raises(ProtocolError, match="client 0 used other features than agreed"):
        method.aggregate(state, iter(wrong), at)


def test_ncm_sends_a_sum_for_each_class_and_no_matrix() -> None:
    (_, update), *_ = updates(FedNCM(LINEAR), FedNCM(LINEAR).init(env()), CLIENTS, env())
    assert {n: tuple(t.shape) for n, t in update.tensors.items()} == {
        "ncm.sum": (3, 8),
        "ncm.class_count": (3,),
        "ncm.tag_sum": (),
    }
