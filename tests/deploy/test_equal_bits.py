"""The deployment gives the bits of the sequential engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcord.core.params import plain
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.rehearsal import Rehearsal
from fedcord.report.load import load_run
from tests.checks.registered import registered

SAME = ("state_hash", "accuracy", "client_accuracy", "validation_accuracy", "bytes_up")


def config(name: str) -> RunConfig:
    """A short run on digits."""
    algorithm, _ = registered(name)
    settings: dict[str, Any] = {"algorithm": name, "dataset": "digits", "clients": 4, "seed": 0}
    settings["rounds"] = 2 if algorithm.traits.rounds is None else None
    return load_config({**settings, "params": plain(algorithm)})


@pytest.mark.parametrize(
    "algorithm", ["fedavg", "flare", "afl", "fedhip", "fedproto", "fedhpro", "accord"]
)
def test_four_nodes_give_the_bits_of_the_sequential_engine(
    algorithm: str, four_nodes: Rehearsal, tmp_path: Path
) -> None:
    what = config(algorithm)
    expected = run(what, Place(tmp_path / "sequential"))
    found = four_nodes.run(what, Place(tmp_path / "deployed", metric="macro_f1"), Progress())
    assert found["metric"] == "macro_f1"
    assert {name: found[name] for name in SAME} == {name: expected[name] for name in SAME}
    assert found["engine"] == "flower"
    assert found["traffic"]["training"]["framed_up"] > found["bytes_up"]
    loaded = load_run(tmp_path / "deployed")  # a run folder like any other
    assert loaded.result is not None
    assert loaded.result.state_hash == expected["state_hash"]


def test_a_method_of_ones_own_runs_at_sites_that_allow_it(
    four_nodes: Rehearsal, tmp_path: Path
) -> None:
    settings = {"algorithm": "tests.deploy.own_method:Halfway", "dataset": "digits", "clients": 4}
    what = load_config({**settings, "rounds": 2})
    expected = run(what, Place(tmp_path / "sequential"))
    found = four_nodes.run(what, Place(tmp_path / "deployed"), Progress())
    assert found["state_hash"] == expected["state_hash"]
