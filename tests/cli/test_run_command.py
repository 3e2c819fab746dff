"""The command line as a user meets it."""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedcord.cli.flags import add_data_flags, add_run_flags, place_from
from fedcord.core.errors import DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.experiment import api
from tests.cli.command import FEDCORD, fedcord, fedcord_process, result_of

INTERRUPTED = "interrupted; the same command with --resume goes on.\n"
SMALL = ["--clients", "5", "--rounds", "2"]


def test_json_has_what_programs_need_and_engines_agree(tmp_path: Path) -> None:
    words = ["run", "fedavg", *SMALL, "--seed", "0"]
    results = {e: result_of(*words, "--engine", e, cwd=tmp_path) for e in ("sequential", "wire")}
    results["processes"] = result_of(
        *words, "--engine", "processes", "--workers", "2", cwd=tmp_path
    )
    first = results["sequential"]
    needed = (
        "algorithm dataset partition clients rounds seed accuracy bytes_up bytes_down seconds "
        "run_dir state_hash"
    )
    assert set(needed.split()) <= first.keys()
    assert len({r["state_hash"] for r in results.values()}) == 1
    assert len({(r["accuracy"], r["loss"]) for r in results.values()}) == 1
    other = result_of("run", "fedavg", *SMALL, "--seed", "1", cwd=tmp_path)
    assert other["state_hash"] != first["state_hash"]


def test_a_killed_run_resumes_to_the_same_result(tmp_path: Path) -> None:
    words = ["run", "fedavg", "--clients", "8", "--rounds", "30", "--model", "cnn:4-8,fc=16"]
    whole = result_of(*words, "--out", "whole", cwd=tmp_path)
    killed = subprocess.Popen(
        [*FEDCORD, *words, "--out", "cut", "--json"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    checkpoints = tmp_path / "cut" / "checkpoints"
    deadline = time.monotonic() + 60
    while not list(checkpoints.glob("round-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
        assert killed.poll() is None, "the run ended before it could be killed"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "cut" / "result.json").exists()
    refused = fedcord(*words, "--out", "cut", cwd=tmp_path)
    assert refused.returncode == 2
    assert "already holds a run (unfinished); add --resume" in refused.stderr
    resumed = result_of(*words, "--out", "cut", "--resume", cwd=tmp_path)
    different = {k for k in whole if whole[k] != resumed[k]}
    assert different <= {"seconds", "run_dir", "work"}
    assert whole["work"]["backward"] == resumed["work"]["backward"] > 0
    lines = [json.loads(x) for x in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(1, 31))
    again = fedcord(*words, "--out", "cut", "--resume", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == resumed
    assert "finished already; nothing to do" in again.stderr


def test_ctrl_c_with_workers_is_one_line_and_can_be_resumed(tmp_path: Path) -> None:
    words = ["run", "fedavg", "--clients", "8", "--rounds", "20", "--model", "cnn:4-8,fc=16"]
    words += ["--subset", "800", "--out", "cut", "--json"]
    run = subprocess.Popen(
        [*FEDCORD, *words, "--engine", "processes", "--workers", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    metrics = tmp_path / "cut" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
        assert run.poll() is None, "the run ended before it could be interrupted"
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to everyone in the group
    _, said = run.communicate(timeout=120)
    assert (run.returncode, said) == (130, INTERRUPTED)
    resumed = result_of(*words, "--resume", cwd=tmp_path)
    whole = result_of(*words, "--out", "whole", cwd=tmp_path)
    assert resumed["state_hash"] == whole["state_hash"]


def test_a_note_says_that_fewer_workers_are_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 5}, raising=False)
    parser = argparse.ArgumentParser()
    add_data_flags(parser)
    add_run_flags(parser)

    def workers_of(*words: str) -> int | None:
        return place_from(parser.parse_args(["--engine", "processes", *words]), None).workers

    assert workers_of("--workers", "1000") == 1000
    assert "note: --workers 1000: there are 3 cores" in capsys.readouterr().err
    assert (workers_of(), workers_of("--workers", "3")) == (None, 3)
    assert capsys.readouterr().err == ""


def test_no_workers_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    words = ["--clients", "2", "--engine", "processes", "--workers", "0"]
    refused = fedcord("run", "afl", *words, "--out", "a", cwd=tmp_path)
    assert refused.returncode == 2
    assert "workers = 0: must be a whole number from 1 to 1024" in refused.stderr
    assert not (tmp_path / "a").exists()


def test_only_the_command_line_changes_how_memory_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[int, int]] = []
    real = ctypes.CDLL

    def opened(name: str | None, **how: Any) -> Any:
        told = SimpleNamespace(mallopt=lambda option, value: changed.append((option, value)))
        return told if name is None else real(name, **how)

    monkeypatch.setattr(ctypes, "CDLL", opened)
    api.run("afl", clients=2, subset=60, out=tmp_path / "called")
    assert changed == []
    result_of("run", "afl", "--clients", "2", "--subset", "60", cwd=tmp_path)
    assert len(changed) == 3


@pytest.mark.parametrize("algorithm", ["afl", "apfl", "safle", "fedhip", "accord"])
def test_a_single_client_is_enough(algorithm: str, tmp_path: Path) -> None:
    few = ["--subset", "100", "--partition", "iid", "--model", "mlp:8"]
    if algorithm == "accord":
        result_of("run", "accord", "--clients", "1", *few, "--set", "local.epochs=1", cwd=tmp_path)
        return
    result_of("run", algorithm, "--clients", "1", *few, cwd=tmp_path)
    result_of("run", algorithm, "--clients", "4", "--participation", "0.2", *few, cwd=tmp_path)


def test_data_without_any_test_part_is_refused(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    train = Split(vectors, np.arange(20) % 2)
    mine = Dataset("mine", "vector", train, Split(vectors[:0], np.arange(0)), ("a", "b"))
    with pytest.raises(DataError, match="'mine' has no test examples"):
        api.run("fedavg", dataset=mine, partition="iid", clients=2, test=0, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resume_without_a_folder_finds_the_run(tmp_path: Path) -> None:
    first = result_of("run", "fedavg", *SMALL, cwd=tmp_path)
    again = result_of("run", "fedavg", *SMALL, "--resume", cwd=tmp_path)
    assert again == first
    missing = fedcord("run", "fedavg", *SMALL, "--seed", "9", "--resume", cwd=tmp_path)
    assert missing.returncode == 2
    assert "no run with these settings" in missing.stderr


BAD_WORDS: dict[str, tuple[list[str], str]] = {
    "algorithm": (["run", "fedavgg"], "did you mean 'fedavg'"),
    "dataset": (["run", "fedavg", "--dataset", "digitz"], "did you mean 'digits'"),
    "partition": (["run", "fedavg", "--partition", "dirichle:1"], "did you mean 'dirichlet'"),
    "alpha": (["run", "fedavg", "--partition", "dirichlet:0"], "must be > 0"),
    "clients": (["run", "fedavg", "--clients", "99999"], "more clients|99999"),
    "engine": (["run", "fedavg", "--engine", "quantum"], "unknown engine 'quantum'"),
    "model": (["run", "fedavg", "--model", "cn"], "did you mean 'cnn'"),
    "model-kind": (["run", "fedavg", "--model", "text"], "text"),
    "model-size": (["run", "fedavg", "--model", "resnet10"], "8×8 are too small"),
    "set-key": (["run", "fedavg", "--set", "lr=1"], "did you mean 'local.lr'"),
    "set-form": (["run", "fedavg", "--set", "nonsense"], "expected key=value"),
    "command": (["rum"], "invalid choice: 'rum'"),
    "flag": (["run", "fedavg", "--roundz", "3"], "did you mean '--rounds'"),
    "list": (["list", "algorithm"], "did you mean 'algorithms'"),
    "participation": (["run", "fedavg", "--participation", "2"], "must be > 0 and <= 1"),
    "seeds": (["compare", "fedavg", "--seeds", "0"], "must be at least 1"),
    "study": (["compare", "missing.toml"], "does not exist"),
    "mix": (["compare", "a.toml", "fedavg"], "one study file or algorithms, not both"),
    "picture": (["inspect", "--out", "x.jpg"], "must end in .png or .svg"),
    "own": (["run", "nowhere:Thing"], "cannot be imported"),
    "own-relative": (["run", "..nowhere:Thing"], "cannot be imported"),
    "own-other": (["run", "fedcord.data.dataset:Dataset"], "lacks aggregate, client_update"),
    "rounds": (["run", "fedavg", "--rounds", "1e30"], "rounds = 1e+30: must be of type int"),
    "rounds-long": (["run", "fedavg", "--rounds", "9" * 5000], "rounds = '999"),
    "rounds-large": (["run", "fedavg", "--rounds", str(10**30)], "must be at most"),
    "clients-large": (["run", "fedavg", "--clients", str(2**62)], "must be >= 0 and <= 1e+07"),
    "clients-lines": (["run", "fedavg", "--clients", "1\n2 = 3"], "line breaks"),
    "clients-note": (["run", "fedavg", "--clients", "1 # 2"], "clients = '1 # 2'"),
    "threads": (["run", "fedavg", "--threads", str(2**63)], "must be at most"),
    "epochs": (["run", "fedavg", "--set", f"local.epochs={2**63}"], "must be at most"),
    "batch": (["run", "fedavg", "--set", f"local.batch_size={10**400}"], "must be at most"),
    "lr": (["run", "fedavg", "--set", f"local.lr={10**400}"], "must be a finite number"),
    "nested": (["run", "fedavg", "--set", "local.lr=" + "[" * 5000], "must be of type float"),
    "layers": (["run", "fedavg", "--model", "mlp:" + "9" * 5000], "list of whole numbers"),
    "bytes": (["run", "fedavg", "--dataset", "npz:\udcff.npz"], "not UTF-8"),
    "workers": (["run", "fedavg", "--workers", "1" * 30], "must be a whole number from 1 to 1024"),
    "workers-none": (["run", "fedavg", "--workers", "0"], "must be a whole number from 1"),
    "many-seeds": (["compare", "fedavg", "--seeds", str(10**9)], "at most 10000"),
    "half-seeds": (["compare", "fedavg", "--seeds", "1.5"], "must be a whole number"),
    "last-seed": (["compare", "fedavg", "--seed", str(2**63 - 1)], "leaves no room for 3 seeds"),
    "augment": (
        ["run", "fedavg", "--dataset", "synthetic", "--set", "local.augment=flip"],
        "local.augment = 'flip' does not fit this data",
    ),
    "data-file": (["run", "fedavg", "--dataset", "npz:none.npz"], "none.npz"),
}


@pytest.mark.parametrize("case", BAD_WORDS)
def test_bad_words_exit_2_with_one_message_and_leave_nothing(case: str, tmp_path: Path) -> None:
    words, expected = BAD_WORDS[case]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert any(part in done.stderr for part in expected.split("|")), done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    done = fedcord(
        "run",
        "fedavg",
        "--dataset=digitz",
        "--partition=dirichlet:-1",
        "--clients=some",
        "--set=lr=1",
        "--set=local.lr=fast",
        "--set=local.epochs=0",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: 6 problems")
    for words in ("digitz", "alpha = -1", "'some'", "'local.lr'?", "'fast'", "local.epochs = 0"):
        assert words in done.stderr


def _npz(path: Path, **changes: Any) -> None:
    generator = np.random.default_rng(0)
    arrays = {
        "x_train": generator.normal(size=(60, 4)).astype(np.float32),
        "y_train": np.arange(60) % 3,
        "x_test": generator.normal(size=(15, 4)).astype(np.float32),
        "y_test": np.arange(15) % 3,
    }
    np.savez(path, **{**arrays, **changes})


def test_own_arrays_run(tmp_path: Path) -> None:
    _npz(tmp_path / "mine.npz")
    result = result_of("run", "fedavg", "--dataset", "npz:mine.npz", *SMALL, cwd=tmp_path)
    assert 0 <= result["accuracy"] <= 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x_train": np.full((60, 4), np.nan, np.float32)}, "NaN|finite"),
        ({"y_test": np.full(15, -1)}, "label"),
        ({"x_test": np.zeros((15, 5), np.float32)}, "shape"),
        ({"y_train": np.arange(59) % 3}, "59"),
    ],
    ids=["nan", "labels", "shape", "length"],
)
def test_bad_data_exit_2(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    _npz(tmp_path / "mine.npz", **changes)
    done = fedcord("run", "fedavg", "--dataset", "npz:mine.npz", *SMALL, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert any(part in done.stderr for part in words.split("|")), done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine.npz"]


def test_a_corrupt_checkpoint_and_a_file_in_the_way_exit_2(tmp_path: Path) -> None:
    words = ["run", "fedavg", *SMALL, "--out", "run"]
    result_of(*words, cwd=tmp_path)
    (tmp_path / "run" / "result.json").unlink()
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    done = fedcord(*words, "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "is damaged" in done.stderr
    (tmp_path / "file").write_text("")
    blocked = fedcord("run", "fedavg", *SMALL, "--out", "file/run", cwd=tmp_path)
    assert blocked.returncode == 2
    assert "choose another folder with --out" in blocked.stderr


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    words = ["run", "fedavg", *SMALL, "--out", "run"]
    result_of(*words, cwd=tmp_path)
    done = fedcord(*words, "--seed", "4", "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "seed is 0 there and 4 here" in done.stderr


def test_divergence_is_a_failure_not_bad_input(tmp_path: Path) -> None:
    done = fedcord("run", "fedavg", *SMALL, "--set", "local.lr=1e30", cwd=tmp_path)
    assert done.returncode == 1
    assert "all 5 updates were refused" in done.stderr
    assert "lower local.lr" in done.stderr
    assert "Traceback" not in done.stderr


def test_empty_and_single_class_clients_are_no_errors(tmp_path: Path) -> None:
    words = ["run", "fedavg", "--rounds", "1", "--partition"]
    result = result_of(*words, "classes:1", "--clients", "12", cwd=tmp_path)
    assert result["refused"] == 0
    done = fedcord(*words, "dirichlet:0.01", "--clients", "60", cwd=tmp_path)
    assert done.returncode == 0
    assert "clients hold no examples" in " ".join(done.stderr.split())


def test_a_users_own_algorithm_runs_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from fedcord import FedAvg\n"
        "from fedcord.algorithms.kit.model_exchange import AveragesModels\n"
        "from fedcord.core.params import param\n\n"
        "@dataclass(frozen=True)\n"
        "class Lazy(AveragesModels):\n"
        "    speed: float = param(1.0, 'how fast', above=0)\n\n"
        "    def client_update(self, shared, memory, data, env):\n"
        "        return FedAvg().client_update(shared, memory, data, env)\n"
    )
    own = ["run", "mine:Lazy", "--set", "speed=2", *SMALL]
    one = fedcord_process(*own, "--json", cwd=tmp_path)
    two = fedcord_process(*own, "--engine", "processes", "--workers", "1", "--json", cwd=tmp_path)
    first, second = json.loads(one.stdout), json.loads(two.stdout)
    assert first["state_hash"] == second["state_hash"]
    assert first["algorithm"] == "mine:Lazy"


def test_a_users_mistake_shows_no_traceback_in_a_real_process(tmp_path: Path) -> None:
    done = fedcord_process("run", "fedavgg", cwd=tmp_path)
    assert done.returncode == 2
    # the others named depend on what else is registered
    assert done.stderr.startswith("error: unknown algorithm 'fedavgg'; did you mean 'fedavg', ")
    assert done.stderr.endswith("? `fedcord list algorithms` shows all.\n")
    assert done.stderr.count("\n") == 1


def test_help_and_list_answer_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from fedcord.cli.main import main\n"
        "try: main({words!r})\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    lists = [["list", what] for what in ("algorithms", "datasets", "partitions", "models")]
    for words in (["--help"], ["run", "--help"], ["inspect", "--clients", "5"], *lists):
        done = subprocess.run(
            [sys.executable, "-c", code.format(words=words)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)
        assert done.stdout


def test_list_shows_parameters_and_json(tmp_path: Path) -> None:
    done = fedcord("list", "algorithms", "fedprox", cwd=tmp_path)
    assert "proximal_weight" in done.stdout
    assert "local.lr" in done.stdout
    rows = json.loads(fedcord("list", "algorithms", "--json", cwd=tmp_path).stdout)
    assert {"fedavg", "fedprox"} <= {row["name"] for row in rows}
