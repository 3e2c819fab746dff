"""Runs of a study side by side: equal bits, failures that stay alone, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from fedcord import FedAvg, compare
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.experiment import job, jobs, workers
from fedcord.experiment.compare import make_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.job_data import handed_over
from fedcord.experiment.jobs import Job, job_count
from fedcord.experiment.load import load_config
from fedcord.experiment.news import RunNews, StudyNews
from fedcord.experiment.run import Place
from fedcord.experiment.study_runs import _for_others, run_study
from fedcord.store.run_folder import RunFolder
from tests.cli.command import FEDCORD, Done, fedcord
from tests.faults.small_runs import COMMON, content, small_data

DYING = """
import os, signal
from dataclasses import dataclass
from fedcord import FedAvg

@dataclass(frozen=True)
class Dying(FedAvg):
    def aggregate(self, state, updates, env):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_fails_or_dies_does_not_stop_the_others_and_bits_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying_method.py").write_text(DYING)
    monkeypatch.syspath_prepend(str(tmp_path))
    forms: dict[str, dict[str, Any]] = {
        "avg": {"algorithm": "fedavg", "rounds": 2},
        "dies": {"algorithm": "dying_method:Dying", "rounds": 4},
        "diverges": {"algorithm": "fedavg", "params": {"local": {"lr": 1e30}}, "rounds": 3},
        "afl": {"algorithm": "afl", "params": {"features": {"expansion": "none"}, "ridge": 0.1}},
    }
    study = make_study([], {**COMMON, "model": ["mlp:2"]}, 1, variants=forms)
    seen: list[tuple[str, ...]] = []

    def begins(label: str, config: object) -> RunNews:
        seen.append(("begins", label))
        return RunNews(
            started=lambda rounds, done, notes: seen.append(("started", label, str(rounds))),
            round=lambda number, accuracy, notes: seen.append(("round", label, str(number))),
        )

    news = StudyNews(begins, lambda label, config, why: seen.append(("ends", label, str(why))))
    there, here = tmp_path / "there", tmp_path / "here"
    failures = run_study(study, there, Place(there), news, small_data(), jobs=2)

    assert [(f.contender, f.error) for f in failures] == [
        ("dies", "Killed"),
        ("diverges", "NumericalError"),
    ]
    assert "was ended by SIGKILL" in failures[0].message
    assert "--resume goes on with it" in failures[0].message
    assert RunFolder(there / "diverges" / "seed-0").has_failed
    assert not RunFolder(there / "dies" / "seed-0").has_failed  # nothing is wrong with it
    assert [what[1] for what in seen if what[0] == "begins"] == ["dies", "diverges", "avg", "afl"]
    for line in [("started", "avg", "2"), ("round", "avg", "2"), ("ends", "avg", "None")]:
        assert line in seen
    assert any(what[:2] == ("ends", "dies") and "SIGKILL" in what[2] for what in seen)

    kept = {label: study.contenders[label] for label in ("avg", "afl", "diverges")}
    run_study(replace(study, contenders=kept), here, Place(here), dataset=small_data())
    for label in kept:
        assert content(there / label) == content(here / label)


@contextlib.contextmanager
def served(data: int = -1) -> Iterator[Connection]:
    """A child's work, done by a thread of this process."""
    ours, theirs = socket.socketpair()
    worker = threading.Thread(target=job.serve, args=[theirs.detach(), data])
    worker.start()
    with Connection(ours.detach()) as connection:
        yield connection
    worker.join(60)
    assert not worker.is_alive()


def heard(connection: Connection) -> list[dict[str, Any]]:
    said = [json.loads(connection.recv_bytes())]
    while said[-1]["what"] != "ended":
        said.append(json.loads(connection.recv_bytes()))
    return said


def test_with_reuse_two_runs_of_a_seed_are_not_side_by_side(tmp_path: Path) -> None:
    forms: dict[str, dict[str, Any]] = {
        "one": {"algorithm": "ensemble", "params": {"local": {"epochs": 1}}},
        "same": {"algorithm": "ensemble", "params": {"local": {"epochs": 1}}},
    }
    study = make_study([], {**COMMON, "model": ["mlp:2"]}, 2, variants=forms)
    for reuse in (tmp_path / "work", None):
        seen: list[int] = []

        def begins(label: str, config: RunConfig, seen: list[int] = seen) -> RunNews:
            seen.append(config.seed)
            return RunNews()

        out = tmp_path / f"reuse-{reuse is not None}"
        run_study(study, out, Place(out, reuse=reuse), StudyNews(begins), small_data(), jobs=2)
        assert (seen[0] != seen[1]) == (reuse is not None)


def test_a_child_tells_what_happens_and_how_it_ended(tmp_path: Path) -> None:
    config = load_config({**COMMON, "rounds": 2, "model": ["mlp:2"]})
    with handed_over(small_data()) as data:
        assert data is not None
        with served(data.file) as child:
            child.send_bytes(job.message(config, Place(tmp_path / "a"), data.plain))
            said = heard(child)
            child.send_bytes(job.message(config, Place(tmp_path / "a"), data.plain))
            again = heard(child)[-1]
            text = json.loads(job.message(config, Place(tmp_path / "b"), data.plain))
            child.send_bytes(json.dumps({**text, "hash": "another"}).encode())
            other = heard(child)[-1]
    assert [line["values"][:1] for line in said if line["what"] == "round"] == [[1], [2]]
    assert sum(line["values"][0] for line in said if line["what"] == "examples") == 2 * 39
    assert said[0]["what"] == "started"
    assert said[-1] == job.ended(None)
    assert RunFolder(tmp_path / "a").is_finished
    assert "already holds a run" in again["failure"]["message"]
    assert "other settings in another process" in other["failure"]["message"]


@pytest.mark.parametrize(
    "error",
    [CheckpointError("a folder is foreign"), OSError(28, "No space left on device", "/data/x")],
)
def test_what_ends_a_study_comes_back_as_the_same_error(error: Exception) -> None:
    values = json.loads(json.dumps(job.ended(None, error)))
    again = job.error_from(values["ends_all"])
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_how_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "available_cores", lambda: 8)
    one, three = load_config({}), load_config({"threads": 3})
    assert job_count(None, [one], "sequential") == 8
    assert job_count(None, [one, three], "wire") == 2
    assert job_count(None, [one], "processes") == 1  # whose workers are as many as cores
    assert job_count(1, [one], "processes") == 1
    assert job_count(20, [one], "sequential") == 20
    with pytest.raises(ConfigError, match="jobs = 2 with engine 'processes': its workers use all"):
        job_count(2, [one], "processes")
    for wrong in (0, 1.5, True, "many", 10_000):
        with pytest.raises(ConfigError, match=r"jobs = .*: must be a whole number from 1 to 1024"):
            job_count(wrong, [one], "sequential")


def test_wrong_numbers_are_told_before_anything_is_written(tmp_path: Path) -> None:
    done = fedcord("compare", "fedavg", "--jobs", "0", "--out", "s", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: jobs = 0: must be a whole number")
    assert not (tmp_path / "s").exists()


def test_what_others_cannot_import_runs_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Mine(FedAvg):
        pass

    Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)

    def none_started(*_: object) -> None:
        raise AssertionError("no process is needed")

    monkeypatch.setattr(workers, "start_child", none_started)
    settings: dict[str, Any] = {"rounds": 1, "clients": 3, "partition": "iid", "model": ["mlp:2"]}
    found = compare([Mine()], seeds=2, dataset=small_data(), out=tmp_path / "s", jobs=2, **settings)
    assert found.failed == ()
    both = make_study(["fedavg"], COMMON, 1, variants={"own": {"algorithm": Mine()}})
    kinds = [Job(k, c, tmp_path).can_run_elsewhere for k, c in both.contenders.items()]
    assert kinds == [True, False]
    notes: list[str] = []
    _for_others([Job(k, c, tmp_path) for k, c in both.contenders.items()], None, _noting(notes))
    assert notes == [
        "own: defined in a script, notebook or function, where other processes cannot import it; "
        "its runs are done in this one, after the others."
    ]


def _noting(notes: list[str]) -> StudyNews:
    return StudyNews(note=notes.append)


STUDY = ["compare", "fedavg", "fedprox", "--seeds", "2", "--rounds", "40", "--clients", "3"]
STUDY += ["--subset", "300", "--model", "mlp:8", "--evaluate-every", "20"]


def _started(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    words = [*FEDCORD, *STUDY, "--jobs", "2", "--out", "study", "--quiet", *more]
    return subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, process_group=0
    )


def _children(pid: int) -> list[int]:
    """Processes whose parent this is."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(number) for number in listed]


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_interrupted_and_killed_twice_it_gives_the_same_report(tmp_path: Path) -> None:
    root = tmp_path / "study"
    for sign, code, more in [
        (signal.SIGINT, 130, []),
        (signal.SIGKILL, -signal.SIGKILL, ["--resume"]),
        (signal.SIGKILL, -signal.SIGKILL, ["--resume"]),
    ]:
        process, begun = _started(tmp_path, *more), _lines(root)
        try:
            while _lines(root) <= begun:
                assert process.poll() is None
                time.sleep(0.01)
            children = _children(process.pid)
            process.send_signal(sign)
            _, said = process.communicate(timeout=300)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == code, said
        assert len(children) >= 2
        while any(map(_is_there, children)):
            time.sleep(0.01)
        if sign == signal.SIGINT:
            assert said == b"interrupted; the same command with --resume goes on.\n"
    done = _done(tmp_path, "--jobs", "2", "--resume", "--json", "--out", "study")
    whole = fedcord(*STUDY, "--jobs", "1", "--out", "whole", "--json", cwd=tmp_path)
    assert (done.returncode, whole.returncode) == (0, 0), done.stderr
    assert _board(done) == _board(whole)
    assert _results(root) == _results(tmp_path / "whole")


def _done(folder: Path, *more: str) -> Done:
    done = subprocess.run(
        [*FEDCORD, *STUDY, *more], cwd=folder, capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _lines(root: Path) -> int:
    """Rounds that were written so far, of all runs."""
    return sum(len(path.read_bytes().splitlines()) for path in root.glob("*/*/metrics.jsonl"))


def _board(done: Done) -> dict[str, Any]:
    """The leaderboard without times and places."""
    values: dict[str, Any] = json.loads(done.stdout)
    rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in values["rows"]]
    for row in rows:
        row["cost"] = {k: v for k, v in row["cost"].items() if "seconds" not in k}
    return {"rows": rows, "failed": values["failed"]}


def _results(root: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(root.glob("*/*/result.json")):
        values = json.loads(path.read_text())
        del values["seconds"], values["run_dir"], values["work"]["cpu_seconds"]
        found[str(path.relative_to(root))] = values
    assert len(found) == 4
    return found
