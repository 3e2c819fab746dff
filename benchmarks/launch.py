"""Run one contender in a fresh interpreter and collect what it cost."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from contenders.entry import MARK
from meter import tree_memory_bytes
from workload import Workload

HERE = Path(__file__).parent
SAMPLE_SECONDS = 0.25
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}
"""Settings of the C library under which every step reuses the pages of the last."""
PEERS_PYTHON = HERE.parent / ".venv-bench" / "bin" / "python"


@dataclass(frozen=True)
class Contender:
    """Someone who can run a workload.

    Attributes:
        name: for the table.
        module: in `contenders`.
        variant: of the module.
        threads: of every process it computes with.
        cores: it can keep busy; its roofline.
        is_peer: runs in the peers' virtual environment.
        processes: started through torchrun when more than one.
        keeps_memory: freed memory is not handed back to the operating system.
    """

    name: str
    module: str
    variant: str = ""
    threads: int = 1
    cores: int = 1
    is_peer: bool = False
    processes: int = 1
    keeps_memory: bool = False

    def command(self) -> list[str]:
        """Interpreter and module."""
        python = str(PEERS_PYTHON) if self.is_peer else sys.executable
        run = [python]
        if self.processes > 1:
            run += ["-m", "torch.distributed.run", f"--nproc_per_node={self.processes}"]
        return [*run, "-m", f"contenders.{self.module}", "--variant", self.variant]


@dataclass(frozen=True)
class Run:
    """One run of a contender; values are means over its measured rounds.

    Attributes:
        samples_per_second: training examples per second of training and aggregation.
        train_cpu: CPU seconds of training and aggregation.
        eval_cpu: CPU seconds of the evaluation.
        eval_wall: seconds of the evaluation.
        wall: seconds of a round.
        peak_bytes: largest memory of all its processes.
        accuracy: after the last round.
        weights: all final weights in one vector.
    """

    samples_per_second: float
    train_cpu: float
    eval_cpu: float
    eval_wall: float
    wall: float
    peak_bytes: int
    accuracy: float
    weights: np.ndarray

    @property
    def cpu(self) -> float:
        """CPU seconds of a round."""
        return self.train_cpu + self.eval_cpu


class ContenderFailedError(RuntimeError):
    """A contender ended without a report."""


def run_contender(contender: Contender, workload: Workload, rounds: int, fraction: float) -> Run:
    """One warm-up round, then `rounds` measured ones."""
    with tempfile.TemporaryDirectory() as private:
        out = Path(private) / "weights.npy"
        given = {
            "folder": workload.folder,
            "workload": workload.name,
            "rounds": rounds + 1,
            "threads": contender.threads,
            "fraction": fraction,
            "out": out,
        }
        flags = [part for key, value in given.items() for part in (f"--{key}", str(value))]
        command = [*contender.command(), *flags]
        more = KEEP_MEMORY if contender.keeps_memory else {}
        text, peak = watch(command, contender.threads, Path(private), more)
        weights = np.load(out)
    measured = json.loads(text)["rounds"][1:]
    mean = {key: fmean(one[key] for one in measured) for key in measured[0]}
    return Run(
        samples_per_second=workload.num_train / mean["train_wall"],
        train_cpu=mean["train_cpu"],
        eval_cpu=mean["eval_cpu"],
        eval_wall=mean["eval_wall"],
        wall=mean["train_wall"] + mean["eval_wall"],
        peak_bytes=peak,
        accuracy=measured[-1]["accuracy"],
        weights=weights,
    )


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    """Another process that wants one core all the time."""
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


def environment(threads: int, private: Path) -> dict[str, str]:
    """What contenders see: their threads, our modules, and no calls to the outside."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")]),
        "PFL_PYTORCH_DEVICE": "cpu",
        "FLWR_HOME": str(private / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }


def watch(
    command: list[str], threads: int, private: Path, more: Mapping[str, str] | None = None
) -> tuple[str, int]:
    """The report line of a command, and the most memory it held."""
    log = private / "log.txt"
    peak = 0
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment(threads, private), **(more or {})},
            cwd=private,
        )
        try:
            while process.poll() is None:
                peak = max(peak, tree_memory_bytes(process.pid))
                time.sleep(SAMPLE_SECONDS)
        finally:
            process.kill()
            process.wait()
    lines = log.read_text(errors="replace").splitlines()
    reports = [line for line in lines if MARK in line]
    if process.returncode != 0 or not reports:
        tail = "\n".join(lines[-15:])
        raise ContenderFailedError(f"{' '.join(command[1:4])} ended without a report:\n{tail}")
    return reports[-1].partition(MARK)[2], peak
