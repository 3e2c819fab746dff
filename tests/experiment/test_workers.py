"""Processes that do one run after another."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedcord.cli import compare_command
from fedcord.experiment import workers
from fedcord.experiment.compare import make_study
from fedcord.experiment.run import Place
from fedcord.experiment.study_runs import run_study
from tests.faults.small_runs import COMMON


def test_processes_stay_for_the_next_study_and_who_is_killed_meanwhile_is_replaced(
    tmp_path: Path,
) -> None:
    small = {**COMMON, "dataset": "synthetic?samples=60&dim=3", "model": ["mlp:2"], "rounds": 1}
    study = make_study(["fedavg"], small, 2)
    with contextlib.closing(workers.Workers()) as crew:
        crew.start(2)  # before anybody knows what for
        first = [one.process for one in crew.children]
        for name in ("a", "b"):
            assert run_study(study, tmp_path / name, Place(None), jobs=2, workers=crew) == []
            assert [one.process for one in crew.children] == first
        os.kill(first[0].pid, signal.SIGKILL)
        first[0].wait()
        assert run_study(study, tmp_path / "c", Place(None), jobs=2, workers=crew) == []
        after = [one.process for one in crew.children]
        assert first[1] in after
        assert first[0] not in after
    assert all(process.poll() is not None for process in (*first, *after))
    results = [
        {run.name: json.loads((run / "result.json").read_text())["state_hash"] for run in runs}
        for runs in ((tmp_path / name / "fedavg").iterdir() for name in "abc")
    ]
    assert results[0] == results[1] == results[2]


class _Asked(workers.Workers):
    """How many processes were asked for; none is started."""

    count: int | None = None

    def start(self, count: int) -> None:
        self.count = count


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["fedavg", "afl", "--jobs", "3"], 3),
        (["fedavg", "--jobs", "8"], 3),
        (["fedavg", "--jobs", "8", "--seeds", "2"], 2),
        (["fedavg", "afl", "--jobs", "1"], 0),
        (["fedavg", "--jobs", "8", "--seeds", "1"], 0),
        (["fedavgg", "--jobs", "2"], None),
        (["study.toml", "--jobs", "2"], None),
        (["fedavg", "--jobs", "many"], None),
        (["fedavg", "--jobs", "2", "--seeds", "0"], None),
        (["fedavg", "--jobs", "2", "--resume"], None),
        (["fedavg", "--jobs", "2", "--engine", "processes"], None),
        (["fedavg", "--jobs", "2", "--device", "cuda"], None),
    ],
)
def test_processes_are_started_ahead_only_where_they_are_needed(
    words: list[str], count: int | None
) -> None:
    parser = argparse.ArgumentParser()
    compare_command.add_arguments(parser)
    asked = _Asked()
    compare_command.start_ahead(parser.parse_args(words), asked)
    assert asked.count == count


def test_a_process_imports_no_more_than_its_runs_need() -> None:
    """What PyTorch brings in by the way costs each worker, and each message to a site, seconds."""
    code = """
import sys
import fedcord.experiment.job
from fedcord.models.registry import network_factory
network_factory("mlp:2", kind="vector", input_shape=(3,), num_classes=2)(None)
heavy = {"sympy", "fedcord.report.build", "matplotlib", "sklearn", "pandas", "pyarrow", "flwr"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
