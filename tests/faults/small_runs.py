"""Runs of milliseconds on a federation of a few numbers, and what must not depend on luck."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.data.dataset import Dataset, Split
from fedcord.experiment import forget, run
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.compare import Study, make_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import OWN_DATA, load_config
from fedcord.store.checkpoint import load_final

PLAIN = {"features": {"expansion": "none"}, "ridge": 0.1}
AVERAGING = {"algorithm": "fedavg", "rounds": 3, "model": ("mlp:2",)}
PERSONAL = {"algorithm": "apfl", "params": PLAIN}
COMMON = {"clients": 3, "partition": "iid", "dataset": f"{OWN_DATA}small"}


@functools.cache
def small_data() -> Dataset:
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 3
    inputs = generator.normal(size=(60, 4)).astype(np.float32) + labels[:, None].astype(np.float32)
    train, test = Split(inputs[:45], labels[:45]), Split(inputs[45:], labels[45:])
    return Dataset("small", "vector", train, test, ("a", "b", "c"))


def config(**settings: Any) -> RunConfig:
    return load_config({**COMMON, **settings})


def study() -> Study:
    forms: dict[str, dict[str, Any]] = {
        "avg": {"algorithm": "fedavg", "rounds": 2, "model": ["mlp:2"]},
        "afl": {"algorithm": "afl", "params": PLAIN},
    }
    return make_study([], COMMON, 2, variants=forms)


@functools.cache
def _built(plain: str) -> Experiment:
    return build_experiment(load_config(json.loads(plain)), small_data())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments are built once; building reads nothing that a fault could hit."""

    def build(wanted: RunConfig, *_: object, **__: object) -> Experiment:
        return _built(json.dumps(wanted.plain()))

    for module in (run, forget):
        monkeypatch.setattr(module, "build_experiment", build)
    monkeypatch.setattr(run, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no disk is cut off here


def content(root: Path) -> dict[str, Any]:
    """Everything below `root` but times and places; half-written files count as content."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.name != ".lock"):
        name = str(path.relative_to(root))
        if path.name == "result.json":
            found[name] = _timeless(json.loads(path.read_text()))
            final = load_final(path.parent, found[name]["config_hash"])
            assert final is not None
            assert final.hash == found[name]["state_hash"]
        elif path.name == "metrics.jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.name == "provenance.json":
            found[name] = _timeless(json.loads(path.read_text()))
        elif path.suffix != ".safetensors" and path.name != "SHA256SUMS":
            found[name] = path.read_bytes()
        else:
            found[name] = "there"  # its content is compared by hashes, which times are part of
    return found


def _timeless(values: dict[str, Any]) -> dict[str, Any]:
    times = ("seconds", "cpu_seconds", "run_dir", "started")
    kept = {k: v for k, v in values.items() if k not in times}
    if "work" in kept:
        kept["work"] = {k: v for k, v in kept["work"].items() if k != "cpu_seconds"}
    return kept
