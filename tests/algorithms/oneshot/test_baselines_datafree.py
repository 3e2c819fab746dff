"""Baselines that teach a student without data, from end to end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.coboosting import (
    WEIGHTS,
    CoBoosting,
)
from fedcord.algorithms.oneshot.baselines.dense import Dense
from fedcord.algorithms.oneshot.baselines.distillation import Distillation
from fedcord.algorithms.oneshot.baselines.feddf import FedDF, read_inputs
from fedcord.algorithms.oneshot.baselines.one_exchange import SendsOnce
from fedcord.algorithms.oneshot.baselines.synthesis import Synthesis
from fedcord.core.contract import ClientId, Env, ServerState, Update
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.tensors import hash_tensors, select
from fedcord.engine.evaluation import evaluate
from tests.federation import IMAGE, VECTOR, env, examples, population

LOCAL = LocalSGD(epochs=15, batch_size=16, lr=0.1)
SMALL = Synthesis(steps=4, batch_size=16, latent_dim=8, width=4)


def trained(
    method: SendsOnce, here: Env, values: dict[str, object]
) -> tuple[ServerState, list[tuple[ClientId, Update]]]:
    people, state = population(values), method.init(here)
    return state, [
        (k, method.client_update(state.shared, {}, people.client(k), here.at(k)).update)
        for k in (0, 1, 3)
    ]


def methods(epochs: int, steps: int, local: LocalSGD = LOCAL) -> Iterator[SendsOnce]:
    yield Dense(epochs=epochs, synthesis=SMALL, local=local)
    yield FedDF(steps=steps, proxy_size=64, synthesis=SMALL, local=local)
    yield FedDF(steps=steps, proxy="noise", proxy_size=64, local=local)
    yield CoBoosting(epochs=epochs, synthesis=SMALL, local=local)


@pytest.mark.parametrize("which", range(4), ids=["dense", "feddf", "feddf-noise", "co-boosting"])
def test_students_learn_the_small_task_without_any_data(which: int) -> None:
    method = list(methods(epochs=25, steps=100))[which]
    here = env(rounds=1)
    state, updates = trained(method, here, VECTOR)
    after = method.aggregate(state, iter(updates), here)
    assert after.shared == state.shared
    found = evaluate(method, after.model, {}, population().test, here).accuracy
    assert found > 0.7


@pytest.mark.parametrize("which", range(4), ids=["dense", "feddf", "feddf-noise", "co-boosting"])
def test_students_of_residual_networks_are_drawn_from_named_streams(which: int) -> None:
    quick = LocalSGD(steps=2, batch_size=16)
    method = list(methods(epochs=2, steps=3, local=quick))[which]
    here = env(IMAGE, rounds=1)
    state, updates = trained(method, here, IMAGE)
    before = torch.random.get_rng_state()
    results = [method.aggregate(state, iter(u), here).result for u in (updates, updates[::-1])]
    assert torch.equal(before, torch.random.get_rng_state())
    assert hash_tensors(results[0]) == hash_tensors(results[1])
    other = dataclasses.replace(here, seed=1)
    assert hash_tensors(method.aggregate(state, iter(updates), other).result) != hash_tensors(
        results[0]
    )
    scores = method.predictor({**state.shared, **results[0]}, {}, here).scores(
        torch.zeros(3, 1, 16, 16)
    )
    assert scores.shape == (3, 3)
    assert bool(torch.isfinite(scores).all())


def test_feddf_without_steps_is_the_mean_model_bit_for_bit() -> None:
    here = env(rounds=1)
    method = FedDF(steps=0, local=LOCAL)
    state, updates = trained(method, here, VECTOR)
    found = select(method.aggregate(state, iter(updates), here).result, "fused")
    total = sum(update.weight for _, update in updates)
    for name, tensor in found.items():
        mean = sum(u.weight * u.tensors[f"model.{name}"].double() for _, u in updates) / total
        assert isinstance(mean, Tensor)
        assert torch.equal(tensor, mean.float())


def test_feddf_distils_on_public_inputs_from_a_file(tmp_path: Path) -> None:
    here = env(rounds=1)
    file = tmp_path / "public.npy"
    np.save(file, examples(80, 9).inputs.numpy())
    method = FedDF(steps=60, proxy="file", proxy_file=str(file), local=LOCAL)
    state, updates = trained(method, here, VECTOR)
    after = method.aggregate(state, iter(updates), here)
    assert evaluate(method, after.model, {}, population().test, here).accuracy > 0.85


def test_feddf_refuses_files_it_cannot_use(tmp_path: Path) -> None:
    task = env().task
    with pytest.raises(DataError, match=r"does not exist; save inputs by numpy.save"):
        read_inputs(str(tmp_path / "absent.npy"), task)
    wrong = tmp_path / "wrong.npy"
    np.save(wrong, np.zeros((5, 7), dtype=np.float32))
    with pytest.raises(
        DataError, match=r"holds \[5, 7\], expected at least 2 inputs of shape \[8\]"
    ):
        read_inputs(str(wrong), task)
    np.save(wrong, np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="is not a NumPy array of numbers"):
        read_inputs(str(wrong), task)
    for proxy, file in (("file", ""), ("noise", "x.npy")):
        with pytest.raises(ConfigError, match="give a file and proxy=file, or neither"):
            FedDF(proxy=proxy, proxy_file=file)


def test_coboosting_limits_keep_the_ensemble_uniform_and_the_pool_as_it_is() -> None:
    here = env(rounds=1)
    still = CoBoosting(epochs=3, weight_step=0.0, synthesis=SMALL, local=LOCAL)
    moving = dataclasses.replace(still, weight_step=0.05)
    state, updates = trained(still, here, VECTOR)
    uniform = still.aggregate(state, iter(updates), here).result[WEIGHTS]
    torch.testing.assert_close(uniform, torch.full((3,), 1 / 3))
    moved = moving.aggregate(state, iter(updates), here).result[WEIGHTS]
    assert not torch.allclose(moved, uniform)
    assert 0 <= float(moved.min()) <= float(moved.max()) <= 1


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Synthesis.batch_size = 1: must be >= 2"):
        Synthesis(batch_size=1)
    with pytest.raises(ConfigError, match=r"Distillation.start = 'mean': must be one of new, aver"):
        Distillation(start="mean")
