"""Runs that go on from another."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord as library
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.start_from import going_on
from fedcord.flower.app_folder import AppConfig
from fedcord.site.in_process import sites_here
from tests.cli.command import fedcord, result_of
from tests.site.in_process import own_table, rehearsal

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


HERE: dict[str, Any] = {"dataset": "sites:tumours", "clients": 2}


def _deployed(folder: Path, algorithm: str, out: str, **more: Any) -> dict[str, Any]:
    files = [folder / f"hospital-{k}" / "site.toml" for k in range(2)]
    for client, file in enumerate(files):
        if not file.exists():
            own_table(folder, client)
    config = load_config({"algorithm": algorithm, **HERE, **more})
    return run(config, Place(folder / out), sites=sites_here(files))


def _own_tables() -> library.Dataset:
    rng = np.random.default_rng(8)
    labels = rng.integers(2, size=80)
    inputs = (rng.normal(size=(80, 6)) + 3.0 * labels[:, None]).astype(np.float32)
    part = library.Split(inputs, labels)
    return library.Dataset("tumours", "vector", part, part, ("benign", "malignant"))


def _same_shared(one: Path, other: Path) -> None:
    before, after = (read_finished(run).checkpoint.state.shared for run in (one, other))
    assert before.keys() == after.keys()
    for name, tensor in before.items():  # nothing is learnt at this rate
        torch.testing.assert_close(after[name], tensor, rtol=1e-5, atol=1e-6)


def test_a_simulation_begins_with_what_sites_have_trained(tmp_path: Path) -> None:
    _deployed(tmp_path, "fedavg", "sites", rounds=2)
    still = {"local": {"lr": 1e-12}}
    more = library.run(
        "fedavg",
        dataset=_own_tables(),
        clients=2,
        partition="iid",
        rounds=1,
        params=still,
        out=tmp_path / "here",
        start=tmp_path / "sites",
    )
    assert more["rounds"] == 1
    _same_shared(tmp_path / "sites", tmp_path / "here")
    assert "begins with the state of a run of fedavg over 2 round(s)" in " ".join(more["notes"])


@pytest.mark.parametrize("before", ["sites", "here"])
def test_a_deployment_begins_with_the_state_of_any_run(tmp_path: Path, before: str) -> None:
    if before == "sites":
        _deployed(tmp_path, "fedavg", before, rounds=2)
    else:
        how: dict[str, Any] = {"clients": 2, "partition": "iid", "rounds": 2}
        library.run("fedavg", dataset=_own_tables(), out=tmp_path / before, **how)
        _deployed(tmp_path, "fedavg", "other", rounds=1)
    source = read_finished(tmp_path / before)
    still = {"rounds": 1, "params": {"local": {"lr": 1e-12}}}
    files = [tmp_path / f"hospital-{k}" / "site.toml" for k in range(2)]
    config = going_on(load_config({"algorithm": "fedavg", **HERE, **still}), source, None, True)
    place = Place(tmp_path / "more")
    result = run(config, place, sites=sites_here(files), start=source)
    assert result["rounds"] == 1
    _same_shared(tmp_path / before, tmp_path / "more")
    origin = read_finished(tmp_path / "more").provenance
    assert origin["started_from"]["state_hash"] == source.result["state_hash"] == config.start
    assert origin["run"] != source.provenance.get("run")  # sites begin without memory
    with pytest.raises(ConfigError, match="name the run to begin with, by --from RUN"):
        run(config, Place(tmp_path / "alone"), sites=sites_here(files))


def test_a_rehearsal_is_never_taken_for_more_rounds_of_a_simulation(tmp_path: Path) -> None:
    """Settings may be equal to the letter, but what clients remember is with the sites."""
    settings = {"partition": "dirichlet:0.5", "clients": 2, "subset": 200, "rounds": 1}
    files = [rehearsal(tmp_path, client, clients=2) for client in range(2)]
    for algorithm in ("fedavg", "fedproto"):
        config = load_config({"algorithm": algorithm, **settings})
        run(config, Place(tmp_path / algorithm), sites=sites_here(files))
    source = read_finished(tmp_path / "fedavg")
    config = going_on(load_config({"algorithm": "fedavg", **settings}), source, 3)
    result = run(config, Place(tmp_path / "here"), start=source)
    assert result["rounds"] == 1
    assert any("begins with the state of a run of fedavg" in note for note in result["notes"])
    with pytest.raises(ConfigError, match="in the models of its sites, which stay there"):
        going_on(config, read_finished(tmp_path / "fedproto"), 3)


def test_an_app_names_the_run_it_begins_with(tmp_path: Path) -> None:
    library.run("fedavg", rounds=1, out=tmp_path / "a", **SMALL)
    words = ["flower", "app", "fedavg", "app", "--from", "a", "--clients", "2", "--rounds", "1"]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "app" / "pyproject.toml").read_text()
    assert f'start = "{tmp_path / "a"}"' in text
    told = AppConfig.from_run_config(tomllib.loads(text)["tool"]["flwr"]["app"]["config"])
    state = read_finished(tmp_path / "a").result["state_hash"]
    assert told.config().start == state
    for wrong, said in {
        ("fedavg", "--from", "nowhere"): "holds no finished run",
        ("afl", "--from", "a"): "bring further clients into a finished run with",
        ("study.toml", "--from", "a"): "--from is for one run",
    }.items():
        done = fedcord("flower", "app", wrong[0], "b", *wrong[1:], cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert not (tmp_path / "b").exists()
