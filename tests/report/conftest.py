import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from tests.cli.command import fedcord

StudyWriter = Callable[..., Path]


def shown(page: str) -> str:
    """The page as it is seen before anything is chosen, and by whoever runs no script."""
    return re.sub(r"<template.*?</template>", "", page, flags=re.DOTALL)


def write_run(
    study: Path,
    name: str,
    seed: int,
    accuracy: float,
    *,
    rounds: int = 4,
    partition_hash: str | None = None,
    is_finished: bool = True,
    class_names: Sequence[str] = ("cat", "dog", "eel"),
    config: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    clients: int = 5,
) -> Path:
    """One run folder whose curve climbs to `accuracy`; a middle round is above the final one."""
    folder = study / name / f"seed-{seed}"
    folder.mkdir(parents=True)
    settings = {
        "algorithm": name,
        "dataset": "digits",
        "partition": "dirichlet:0.1",
        "clients": clients,
        "rounds": rounds,
        "model": "mlp",
        "seed": seed,
        "participation": 1.0,
        "params": {"learning_rate": 0.1, "proximal_weight": 0.01},
    }
    folder.joinpath("config.toml").write_text(tomli_w.dumps(settings | dict(config or {})))
    digest = partition_hash or f"partition-of-seed-{seed}"
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.2] * clients, len(class_names)).T
    counts = np.floor(shares * 150).astype(int)
    partition = {
        "spec": "dirichlet:0.1",
        "hash": digest,
        "num_clients": clients,
        "num_classes": len(class_names),
        "class_names": list(class_names),
        "counts": counts.tolist(),
        "indices": [],
    }
    folder.joinpath("partition.json").write_text(json.dumps(partition))
    lines = []
    for round_ in range(1, rounds + 1):
        climb = accuracy * (1 - 0.6 * np.exp(-4 * round_ / rounds))
        value = accuracy if round_ == rounds else float(climb + rng.normal(0, 0.008))
        if round_ == rounds - 1:
            value = min(1.0, accuracy + 0.05)  # the trap: a maximum over rounds would take this
        lines.append(
            {
                "round": round_,
                "accuracy": value,
                "loss": 1.0,
                "train_loss": 0.9 / round_,
                "bytes_up": 1000,
                "bytes_down": 2000,
                "seconds": 0.5,
                "refused": [],
                "clients": clients,
            }
        )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    folder.joinpath("metrics.jsonl").write_text(text)
    provenance = {
        "packages": {"fedcord": "0.1", "torch": "2.13"},
        "python": "3.11",
        "threads": 1,
        "data_hash": f"data-of-seed-{seed}",
        "commit": "c0ffee",
    }
    folder.joinpath("provenance.json").write_text(json.dumps(provenance))
    if is_finished:
        outcome = {
            "algorithm": name,
            "dataset": "digits",
            "partition": "dirichlet:0.1",
            "partition_hash": digest,
            "clients": clients,
            "rounds": rounds,
            "seed": seed,
            "accuracy": accuracy,
            "client_accuracy_mean": max(0.0, accuracy - 0.02),
            "client_accuracy": [
                max(0.0, accuracy - 0.12),
                *[accuracy] * 3,
                min(1.0, accuracy + 0.02),
            ],
            "bytes_up": 1000 * rounds,
            "bytes_down": 2000 * rounds,
            "seconds": 0.5 * rounds,
            "state_hash": f"state-{name}-{seed}",
            "run_dir": "somewhere",
            "test_counts": [50] * len(class_names),
            "engine": "sequential",
        }
        folder.joinpath("result.json").write_text(json.dumps(outcome | dict(result or {})))
    return folder


@pytest.fixture
def write_study(tmp_path: Path) -> StudyWriter:
    """Writes a study folder from {name: [accuracy per seed]}."""

    def write(accuracies: Mapping[str, Sequence[float]], **settings: Any) -> Path:
        study = tmp_path / "study"
        for name, values in accuracies.items():
            for seed, accuracy in enumerate(values):
                write_run(study, name, seed, accuracy, **settings)
        return study

    return write


@pytest.fixture
def add_run() -> Callable[..., Path]:
    """Adds one run folder to a study."""
    return write_run


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the optional extra were not installed; also what tests without figures save time by."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def write_studies(
    folder: Path, studies: Mapping[str, Mapping[str, Sequence[float]]], first_seeds: Sequence[int]
) -> Path:
    """Finished studies of different partitions: by name and algorithm the accuracy of each seed."""
    for place, (study, methods) in enumerate(studies.items()):
        for name, values in methods.items():
            for seed, value in enumerate(values, start=first_seeds[place]):
                config = {"partition": f"dirichlet:0.{place + 1}"}
                hashed = f"{study}-{seed}"
                write_run(folder / study, name, seed, value, partition_hash=hashed, config=config)
    return folder


def assert_refused(words: Sequence[str], said: str, folder: Path) -> None:
    """`fedcord report` ends with exit code 2, says so, and leaves nothing behind."""
    before = set(folder.rglob("*"))
    done = fedcord("report", *words, cwd=folder)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert set(folder.rglob("*")) == before
