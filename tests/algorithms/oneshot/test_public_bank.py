"""A feature bank from a teacher that the server trains on public data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.oneshot.objective import Objective
from fedcord.algorithms.oneshot.oneshot import OneShot
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError
from tests.algorithms.oneshot.small_runs import QUICK, method, preset, run, same_bits, train
from tests.federation import examples, task


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Sixty public vectors of the three classes."""
    public = examples(60, 9)
    path = tmp_path / "public.npz"
    np.savez(path, x=public.inputs.numpy(), y=public.labels.numpy())
    return str(path)


def with_file(file: str, **more: int) -> OneShot:
    return preset("feature-bank", {"objective": {"bank_file": file, **more}})


def test_the_bank_travels_with_the_first_model_and_is_the_teachers(file: str) -> None:
    env = Env(task(), 0, num_rounds=1)
    shared = with_file(file, feature_bank=4).init(env).shared
    features, labels = shared["public.features"], shared["public.labels"]
    assert labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert torch.allclose(features.norm(dim=1), torch.ones(12))
    without = preset("feature-bank").init(env).shared
    assert set(shared) - set(without) == {"public.features", "public.labels"}
    assert all(torch.equal(shared[name], without[name]) for name in without)


def test_the_teacher_has_learned_to_tell_the_classes_apart(file: str) -> None:
    """Features of a class lie nearer to each other than those of the untrained network do."""
    env = Env(task(), 0, num_rounds=1)

    def contrast(epochs: int) -> float:
        shared = with_file(file, teacher_epochs=epochs).init(env).shared
        features, labels = shared["public.features"], shared["public.labels"]
        cosines, same = features @ features.T, labels[:, None] == labels[None]
        return float(cosines[same].mean() - cosines[~same].mean())

    assert contrast(20) > contrast(1) + 0.1


def test_clients_contrast_with_what_they_were_sent(file: str) -> None:
    assert not same_bits(train(with_file(file)), train(preset("feature-bank")))
    state, _, _ = run(with_file(file))
    assert "public.features" in state.shared
    without = preset("feature-bank", {"objective": {"bank_weight": 0}})
    assert same_bits(train(with_file(file, bank_weight=0)), train(without))


def test_a_file_without_a_bank_is_a_mistake(file: str) -> None:
    with pytest.raises(ConfigError, match="needs a feature bank"):
        method(QUICK, PRESETS["fafi"].values, {"objective": {"bank_file": file}})


def test_accord_refuses_what_it_would_not_send(file: str) -> None:
    with pytest.raises(ConfigError, match="accord sends no feature bank"):
        Accord(objective=Objective(feature_bank=4, bank_file=file))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((3, 8), np.float32)}, "has no x and y of numbers"),
        ({"x": np.zeros((3, 9), np.float32), "y": np.arange(3)}, "holds x of [3, 9]"),
        ({"x": np.zeros((3, 8), np.float32), "y": np.arange(2)}, "and y of [2]"),
        ({"x": np.zeros((3, 8), np.float32), "y": np.array([0, 1, 7])}, "lacks the classes [2]"),
        ({"x": np.array([{}]), "y": np.arange(1)}, "has no x and y of numbers"),
        (None, "does not exist"),
    ],
)
def test_files_that_cannot_be_used_are_told(
    tmp_path: Path, arrays: dict[str, np.ndarray] | None, words: str
) -> None:
    path = tmp_path / "bad.npz"
    if arrays is not None:
        np.savez(path, **arrays)  # type: ignore[arg-type]
    errors = with_file(str(path)).review(task()).errors
    assert len(errors) == 1
    assert words in errors[0]
