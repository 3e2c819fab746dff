"""Flower's simulation engine is one more way to the same bits."""

from __future__ import annotations

from pathlib import Path

from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.flower.rehearsal import rehearsal


def test_simulated_nodes_give_the_bits_of_the_sequential_engine(tmp_path: Path) -> None:
    settings = {"algorithm": "fedproto", "dataset": "digits", "subset": 300, "clients": 3}
    config = load_config({**settings, "rounds": 2})
    expected = run(config, Place(tmp_path / "sequential"))
    with rehearsal(tmp_path / "run", 3, simulated=True) as local:
        found = local.run(config, Place(tmp_path / "run"), Progress())
    assert found["state_hash"] == expected["state_hash"]
    assert not (tmp_path / "run.sites").exists()  # nothing is left beside the run
