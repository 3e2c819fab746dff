"""Whole runs: a client's own model is found again wherever a run's models are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fedcord
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from tests.trained.runs import finished

NAMES = [name for name, info in ALGORITHMS.items() if info.family == "personal"]
NONE_IN_COMMON = {"fedper", "fedrep", "fedbn"}
"""Methods whose server has only a part of a network."""
PLAIN = set(NAMES) - {"fedrod"}
"""Methods whose clients answer by one network as it is."""
SKEWED: dict[str, Any] = {"rounds": 1, "model": ["mlp:8"], "partition": "dirichlet:0.1"}


def _inputs() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 16, (5, 1, 8, 8)).astype(np.uint8)


def test_all_eight_are_registered() -> None:
    assert len(NAMES) == 8


@pytest.mark.parametrize("name", NAMES)
def test_own_models_of_a_run_are_loaded(name: str, tmp_path: Path) -> None:
    result = finished(tmp_path / "run", name, **SKEWED)
    run, inputs = fedcord.load(tmp_path / "run"), _inputs()
    assert ("own_models" in result) == (name in NONE_IN_COMMON)
    first, second = (run.scores(inputs, client=client) for client in (0, 1))
    is_averaged = name == "fedbn"  # this network has no normalisation layers
    assert np.array_equal(first, second) == is_averaged
    if name in NONE_IN_COMMON:
        with pytest.raises(ConfigError, match="makes a model for every client and none for all"):
            run.scores(inputs)
    else:
        assert not np.array_equal(first, run.scores(inputs))
    if name in PLAIN:
        network = run.network(client=1)
        with torch.inference_mode():
            found = network(run.model(1).prepared(torch.from_numpy(inputs)))
        assert np.allclose(second, found.numpy(), atol=1e-6)
    else:
        with pytest.raises(ConfigError, match="answers by more than one plain network"):
            run.network(client=1)


@pytest.mark.parametrize("name", ["fedper", "fedrod"])
def test_an_own_model_is_exported(name: str, tmp_path: Path) -> None:
    finished(tmp_path / "run", name, **SKEWED)
    words = ["export", str(tmp_path / "run"), str(tmp_path / "model"), "--client", "1"]
    assert main(words) == 0
    exported, run = fedcord.load(tmp_path / "model"), fedcord.load(tmp_path / "run")
    assert np.array_equal(exported.scores(_inputs()), run.scores(_inputs(), client=1))


def test_who_never_took_part_answers_with_what_is_common(tmp_path: Path) -> None:
    """Two of three clients are drawn for the only round."""
    finished(tmp_path / "run", "ditto", **{**SKEWED, "participation": 0.5})
    run = fedcord.load(tmp_path / "run")
    common = run.scores(_inputs())
    same = [np.array_equal(run.scores(_inputs(), client=client), common) for client in range(3)]
    assert same.count(True) == 1
