"""Clients that come late are in the model as if they had been there from the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord as library
from fedcord.experiment.finished_run import read_finished
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_run, load_runs
from tests.cli.command import fedcord, result_of
from tests.trained.runs import VECTOR, finished, own_data


def _save(place: Path, name: str, rows: np.ndarray) -> str:
    data = own_data(VECTOR)
    np.savez(place / name, x=data.train.inputs[rows], y=data.train.labels[rows])
    return f"npz:{place / name}"


def _three_of_four(place: Path) -> str:
    """A run over three of four clients; the data of the fourth."""
    data = own_data(VECTOR)
    site = np.arange(len(data.train)) % 4
    here = np.flatnonzero(site < 3)
    parts = {"x": data.train.inputs, "y": data.train.labels, "site": site}
    train = {f"{name}_train": values[here] for name, values in parts.items()}
    test = {"x_test": data.test.inputs, "y_test": data.test.labels}
    test["site_test"] = np.zeros(len(data.test), np.int64)
    np.savez(place / "three.npz", **train, **test)  # type: ignore[arg-type]
    settings: dict[str, Any] = {
        "partition": "natural:site",
        "clients": 0,
        "validation": 0.0,
        "test": 0.0,
    }
    finished(place / "seed-0", "afl", name=f"npz:{place / 'three.npz'}?scale=none", **settings)
    return _save(place, "late.npz", np.flatnonzero(site == 3))


def test_a_late_client_is_in_as_if_from_the_start(tmp_path: Path) -> None:
    late = _three_of_four(tmp_path)
    done = result_of("join", "seed-0", "--data", late, "--name", "3", cwd=tmp_path)
    assert done["clients"] == [3]
    assert done["difference"] < 1e-9
    assert Path(done["run_dir"]).name == "seed-0-with-3"
    data = own_data(VECTOR)
    everybody = {"x_train": data.train.inputs, "y_train": data.train.labels}
    everybody |= {"x_test": data.test.inputs, "y_test": data.test.labels}
    everybody["site_train"] = np.arange(len(data.train)) % 4
    everybody["site_test"] = np.zeros(len(data.test), np.int64)
    np.savez(tmp_path / "four.npz", **everybody)  # type: ignore[arg-type]
    settings: dict[str, Any] = {
        "partition": "natural:site",
        "clients": 0,
        "validation": 0.0,
        "test": 0.0,
    }
    name = f"npz:{tmp_path / 'four.npz'}?scale=none"
    whole = finished(tmp_path / "whole", "afl", name=name, **settings)
    assert done["accuracy_after"] == whole["accuracy"]
    found = library.load(tmp_path / "seed-0-with-3").scores(data.test.inputs)
    wanted = library.load(tmp_path / "whole").scores(data.test.inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    run = read_finished(tmp_path / "seed-0-with-3")
    assert run.partition["num_clients"] == run.result["clients"] == 4
    # which includes what it cost, by every rule
    for name in ("bytes_up", "bytes_down", "traffic", "complete_traffic"):
        assert run.result[name] == whole[name]
    assert run.result["complete_traffic"]["delivery"] > 0
    line = json.loads((tmp_path / "seed-0-with-3" / "metrics.jsonl").read_text().splitlines()[-1])
    assert (line["clients"], line["bytes_up"]) == (4, whole["bytes_up"])
    torch.testing.assert_close(
        torch.tensor(run.partition["counts"][3]),
        torch.from_numpy(np.bincount(data.train.labels[3::4], minlength=2)),
    )


def test_who_comes_late_costs_what_the_others_did(tmp_path: Path) -> None:
    """Of a method with encoders, passes and personal models; there all clients are of one size."""
    late = _three_of_four(tmp_path)
    three = f"npz:{tmp_path / 'three.npz'}?scale=none"
    params = {"local": {"epochs": 1, "batch_size": 8}, "personal": True}
    settings: dict[str, Any] = {"partition": "natural:site", "clients": 0, "validation": 0.0}
    settings |= {"test": 0.0, "params": params}
    before = finished(tmp_path / "accord", "accord", name=three, **settings)
    result_of("join", "accord", "--data", late, "--name", "late", cwd=tmp_path)
    result = read_finished(tmp_path / "accord-with-3").result
    # it trains no encoder: it looks through theirs for the head, and for a model of its own
    looks = (before["work"]["forward"] - before["work"]["backward"]) // 3
    assert looks > 0
    assert result["work"]["forward"] == before["work"]["forward"] + looks
    assert result["work"]["backward"] == before["work"]["backward"]
    assert result["work"]["most_forward"] == before["work"]["most_forward"]
    assert result["work"]["cpu_seconds"] > before["work"]["cpu_seconds"]
    for name in ("personalisation", "evaluation"):
        assert 3 * result["traffic"][name]["down"] == 4 * before["traffic"][name]["down"]
    old, new = before["complete_traffic"], result["complete_traffic"]
    assert 3 * new["delivery"] == 4 * old["delivery"]
    assert new["up"] == result["bytes_up"] > old["up"]
    assert new["down"] == result["traffic"]["training"]["down"] + new["delivery"]


def test_reports_mark_the_run_and_keep_it_out_of_the_study(tmp_path: Path) -> None:
    late = _three_of_four(tmp_path)
    result_of("join", "seed-0", "--data", late, "--name", "late", cwd=tmp_path)
    assert load_run(tmp_path / "seed-0-with-3").name.endswith("with client 'late' (3)")
    board = leaderboard(load_runs(tmp_path))
    assert len(board.rows) == 1
    assert any("it was made by 'join'" in note for note in board.notes)


def test_what_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    late = _three_of_four(tmp_path)
    data = own_data(VECTOR)
    finished(tmp_path / "avg", "fedavg", data, rounds=1)
    finished(tmp_path / "digits", "fedavg", rounds=1)
    np.savez(tmp_path / "unlabelled.npz", x=data.train.inputs)
    np.savez(tmp_path / "odd.npz", x=data.train.inputs[:2], y=["7", "8"])
    before = sorted(path.name for path in tmp_path.iterdir())
    for words, said in {
        ("digits", "--data", late): "fedavg does not keep sums, so nobody can join exactly",
        ("seed-0", "--data", "npz:unlabelled.npz", "--name", "x"): "has no class; whoever joins",
        ("seed-0", "--data", "npz:odd.npz", "--name", "x"): "unknown class '7'",
        ("seed-0", "--data", late): "clients of this run have names; give --name",
        ("seed-0", "--data", late, "--name", "1"): "is taken or empty",
        ("nowhere", "--data", late): "holds no finished run",
    }.items():
        done = fedcord("join", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["join", "forget", "predict"])
def test_a_joined_run_is_the_end(tmp_path: Path, command: str) -> None:
    late = _three_of_four(tmp_path)
    result_of("join", "seed-0", "--data", late, "--name", "late", "--out", "j", cwd=tmp_path)
    words, said = {
        "join": (["join", "j", "--data", late, "--name", "x"], "was itself made by forget or join"),
        "forget": (["forget", "j", "--client", "0"], "forget in the run it was made of"),
        "predict": (
            ["predict", "j", "--data", late, "--client", "9"],
            "client 9 does not exist; this run has clients 0 to 3",
        ),
    }[command]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert json.loads((tmp_path / "j" / "result.json").read_text())["joined"] == [3]
