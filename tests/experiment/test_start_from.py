"""Runs that go on from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fedcord as library
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from tests.cli.command import fedcord, result_of

SMALL: dict[str, Any] = {"clients": 3, "partition": "iid", "subset": 200}


@pytest.mark.parametrize("algorithm", ["fedavg", "fedproto", "fedtgp"])
def test_more_rounds_are_the_bits_of_a_longer_run(tmp_path: Path, algorithm: str) -> None:
    """With what clients remember, what the server keeps to itself, and every number drawn."""
    whole = library.run(algorithm, rounds=4, out=tmp_path / "whole", **SMALL)
    library.run(algorithm, rounds=3, out=tmp_path / "part", **SMALL)
    more = library.run(algorithm, rounds=1, out=tmp_path / "more", start=tmp_path / "part", **SMALL)
    assert more["state_hash"] == whole["state_hash"]
    assert (more["accuracy"], more["rounds"]) == (whole["accuracy"], 4)
    assert more["bytes_up"] == whole["bytes_up"]
    assert "goes on after 3 round(s) of an earlier run, which are counted." in more["notes"]
    assert more["config_hash"] != whole["config_hash"]


def test_another_method_over_other_clients_begins_with_the_state(tmp_path: Path) -> None:
    library.run("fedavg", rounds=2, out=tmp_path / "a", **SMALL)
    words = ["run", "fedprox", "--from", "a", "--clients", "5", "--partition", "iid", "--rounds"]
    more = result_of(*words, "1", "--set", "local.lr=1e-12", "--out", "b", cwd=tmp_path)
    assert more["rounds"] == 1
    before, after = (read_finished(tmp_path / name).checkpoint.state.shared for name in "ab")
    for name, tensor in before.items():  # nothing is learnt at this rate
        torch.testing.assert_close(after[name], tensor, rtol=1e-5, atol=1e-6)
    assert any(
        "begins with the state of a run of fedavg over 2 round(s)" in n for n in more["notes"]
    )
    origin = read_finished(tmp_path / "b").provenance["started_from"]
    assert (origin["run_dir"], origin["algorithm"], origin["rounds"]) == ("a", "fedavg", 2)


def test_what_differs_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    library.run("fedavg", rounds=1, out=tmp_path / "a", **SMALL)
    library.run("afl", out=tmp_path / "sums", **SMALL)
    small = ["--clients", "3", "--partition", "iid", "--subset", "200"]
    for words, said in {
        ("fedavg", "--from", "a", "--model", "mlp:7"): "is float32[64] there and float32[7] here",
        ("fedproto", "--from", "a"): "not there",
        ("afl", "--from", "sums", *small): "bring further clients into a finished run with",
        ("fedavg", "--from", "nowhere"): "holds no finished run",
    }.items():
        done = fedcord("run", *words, "--out", "b", cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "b").exists()


def test_a_run_that_was_stopped_on_the_way_goes_on(tmp_path: Path) -> None:
    library.run("fedavg", rounds=1, out=tmp_path / "a", **SMALL)
    how: dict[str, Any] = {"rounds": 2, "start": tmp_path / "a", **SMALL}
    whole = library.run("fedavg", out=tmp_path / "whole", **how)
    library.run("fedavg", out=tmp_path / "b", **how)
    for left in (tmp_path / "b" / "checkpoints").iterdir():
        left.unlink()
    (tmp_path / "b" / "result.json").unlink()
    config = load_config(read_finished(tmp_path / "whole").config.plain())
    with pytest.raises(CheckpointError, match="name that again with --from"):
        run(config, Place(tmp_path / "b", resume=True))
    again = library.run("fedavg", out=tmp_path / "b", resume=True, **how)
    assert again["state_hash"] == whole["state_hash"]


def test_a_start_without_its_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name the run to begin with, by --from RUN"):
        run(load_config({"algorithm": "fedavg", "start": "abc"}), Place(tmp_path / "b"))
