"""Odd clients, steps that are not finite, and settings that deserve a word or are refused."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import torch

from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, NumericalError, ProtocolError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.core.tensors import hash_tensors
from tests.algorithms.oneshot.small_runs import (
    QUICK,
    method,
    policy,
    preset,
    run,
    train,
)
from tests.federation import IMAGE, VECTOR, examples, population, task


def held(labels: list[int]) -> ClientData:
    base = examples(len(labels), 0)
    train_part = Examples(base.inputs, torch.tensor(labels))
    empty = Examples(base.inputs[:0], base.labels[:0])
    return ClientData(train_part, empty, empty)


@pytest.mark.parametrize("labels", [[1], [1, 1, 1, 1], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("name", ["fafi", "flare", "v9a", "memory-bank", "feature-bank"])
def test_edge_small_clients_stay_finite(name: str, labels: list[int]) -> None:
    result = train(preset(name), data=held(labels))
    assert all(bool(torch.isfinite(t).all()) for t in result.update.tensors.values())
    assert result.update.metrics["skipped_steps"] == 0


def test_edge_zero_features_stay_finite() -> None:
    algorithm = preset("flare")
    env = Env(task(), 0)
    shared = {
        name: torch.zeros_like(t) if name.startswith("model.") else t
        for name, t in algorithm.init(env).shared.items()
    }
    result = algorithm.client_update(shared, {}, population().client(0), env.at(0))
    assert all(bool(torch.isfinite(t).all()) for t in result.update.tensors.values())


def test_edge_clients_without_examples_are_left_out() -> None:
    algorithm, env = preset("fafi"), Env(task(), 0)
    state = algorithm.init(env)
    good = algorithm.client_update(state.shared, {}, population().client(0), env.at(0)).update
    none = dataclasses.replace(good, weight=0.0)
    alone = algorithm.aggregate(state, iter([(0, good)]), env)
    both = algorithm.aggregate(state, iter([(0, good), (1, none)]), env)
    assert hash_tensors(alone.result) == hash_tensors(both.result)
    with pytest.raises(ProtocolError, match="no client has examples"):
        algorithm.aggregate(state, iter([(1, none)]), env)


def poisoned() -> ClientData:
    data = population().client(0)
    inputs = data.train.inputs.clone()
    inputs[:3] = float("nan")
    return ClientData(Examples(inputs, data.train.labels), data.validation, data.test)


def test_edge_steps_that_are_not_finite_are_skipped_and_counted() -> None:
    algorithm = preset("flare", {"local": {"batch_size": 4, "epochs": 2}})
    result = train(algorithm, data=poisoned())
    skipped = result.update.metrics["skipped_steps"]
    assert 2 <= skipped <= 6
    assert all(bool(torch.isfinite(t).all()) for t in result.update.tensors.values())
    assert math.isfinite(result.update.metrics["lambda_raw"])
    words = algorithm.observations(result.update.metrics)
    assert words == (f"{skipped:.0f} steps were not finite and were skipped",)


def test_edge_ten_such_steps_in_a_row_end_the_client_in_words() -> None:
    data = poisoned()
    data.train.inputs.fill_(float("nan"))
    algorithm = preset("flare", {"local": {"batch_size": 4}})
    with pytest.raises(
        NumericalError, match=r"10 steps in a row were not finite in epoch 0; lower"
    ):
        train(algorithm, data=data)
    runaway = method(
        QUICK, {"local": {"batch_size": 4}}, policy("uw", entropy_min=2e5, entropy_max=2e5)
    )
    with pytest.raises(
        NumericalError, match=r"λ_raw 2.0e\+05: alignment dominates; enable the valve"
    ):
        train(runaway, data=data)


def test_edge_a_client_smaller_than_a_batch_is_named_once() -> None:
    large = {"local": {"batch_size": 1000, "epochs": 2}, "checkpoints": 2}
    first, last = run(preset("fafi", large))[1]
    sizes = [len(population().client(client).train) for client in range(4)]
    assert [
        f"client {k}: {n} examples are fewer" in first.notes[k] for k, n in enumerate(sizes)
    ] == [True] * 4
    assert last.notes == ()
    assert run(preset("fafi", {"local": {"batch_size": 1, "epochs": 1}}))[1][0].notes == ()


def test_a_runaway_is_named() -> None:
    wild = policy("uw", entropy_min=2e5, entropy_max=2e5)
    algorithm = method(QUICK, wild)
    metrics = train(algorithm).update.metrics
    assert metrics["runaway_epoch"] == 0
    (words,) = algorithm.observations(metrics)
    assert words.startswith("λ_raw ")
    assert words.endswith("enable the valve: --set policy.lambda_max=50")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (policy("uw", lambda_max=50.0, hinge_weight=0.001), "soft cap.*climb to 500.*from 0.01 on"),
        (policy("uw"), "nothing bounds λ_raw"),
        (
            {**policy("anneal", progress="chunk"), "checkpoints": 4},
            "schedule is constant, nothing is annealed",
        ),
        (policy("anneal", progress="round_start"), "schedule is constant"),
        ({"local": {"views": "simclr-batch"}}, "all examples of a batch alike"),
    ],
)
def test_notes_say_what_will_happen(values: dict[str, Any], words: str) -> None:
    (note,) = method(QUICK, values).review(task()).notes
    assert re.search(words, note)


def test_recommended_settings_have_no_notes() -> None:
    for name in ("fafi", "flare", "v7", "flare-scale-free", "flare-lpa"):
        assert preset(name).review(task()).notes == ()


def test_a_fallback_of_anchors_is_noted() -> None:
    narrow = {**VECTOR, "models": ["mlp:1"]}
    algorithm = preset("flare", {"anchors": {"fallback": "lowcoherence"}})
    (note,) = algorithm.review(task(narrow)).notes
    assert "3 classes do not form a simplex in 1 dimensions" in note
    (error,) = preset("flare").review(task(narrow)).errors
    assert "3 classes do not form a simplex in 1 dimensions" in error


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"policy": {"kind": "uw"}}, "policy.kind = 'uw' weighs an alignment, but anchors.kind"),
        ({"objective": {"alignment_epochs": 1}}, "needs a feature bank"),
        (
            {"objective": {"alignment_epochs": 5, "feature_bank": 4}},
            "must be below objective.period = 5",
        ),
        ({"conflict": {"kind": "pcgrad_sym"}, "alignment": {"on": "feature"}}, "prototypes"),
        (
            {"objective": {"contrastive": "simclr"}, "local": {"views": "none"}},
            "compares two views",
        ),
        ({"anchors": {"kind": "cube"}}, "must be one of none, random, etf, interpolated"),
        ({"server": {"kind": "magic"}}, "server.kind = 'magic': must be one of param_avg"),
        ({"policy": {"entropy_min": 0.0}}, r"policy.entropy_min = 0.0: must be > 0"),
        ({"local": {"epochs": 0}}, "local.epochs = 0: must be >= 1"),
    ],
)
def test_bad_combinations_are_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(OneShot, values)


def test_settings_that_do_not_fit_the_task_are_refused_in_words() -> None:
    (error,) = method({"local": {"views": "simclr"}}).review(task()).errors
    assert "'simclr' does not fit this data" in error
    (error,) = method({"objective": {"contrastive": "simclr"}}).review(task()).errors
    assert "compares two views" in error
    (error,) = method().review(task({**VECTOR, "models": ["mlp:16", "mlp:8"]})).errors
    assert "2 different models were given" in error


def test_networks_without_encoder_weights_train_prototypes_only() -> None:
    frozen = {**VECTOR, "models": ["frozen:pixels"]}
    state, records, _ = run(preset("flare", {"local": {"epochs": 40}}), frozen)
    assert [name for name in state.shared if name.startswith("model.")] == []
    last = records[-1].evaluation
    assert last is not None
    assert last.accuracy > 0.8


def test_images_with_views_and_batch_normalisation_run() -> None:
    state, records, _ = run(preset("fafi", {"local": {"epochs": 1}}), IMAGE)
    assert records[-1].refused == ()
    assert all(bool(torch.isfinite(t.float()).all()) for t in state.result.values())
