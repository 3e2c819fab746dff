"""What a process and everything it started cost: CPU seconds, wall-clock time, memory.

Figures come from /proc, because the operating system's own totals count children only after they
have ended, and worker processes live through all rounds.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TICK = 1 / os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


def descendants(root: int) -> set[int]:
    """Processes started by `root`, directly or not, without `root` itself."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    new = [root]
    while new:
        new = [child for pid in new for child in children.get(pid, ())]
        found.update(new)
    return found


def tree_cpu_seconds(root: int) -> float:
    """CPU time of a process and all it started, living or reaped."""
    here = os.getpid()
    others = {root, *descendants(root)} - {here}
    total = 0.0
    if root == here or here in descendants(root):  # for itself a process has a finer clock
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = time.process_time() + reaped.ru_utime + reaped.ru_stime
    for _, fields in _stats(others):  # utime, stime and what it has reaped itself
        total += TICK * sum(int(value) for value in fields[11:15])
    return total


def tree_memory_bytes(root: int) -> int:
    """Memory of a process and all it started; pages that can be shared are counted once.

    Private pages add up. File and shared-memory pages (libraries, a data set mapped by several
    workers) are taken from the process that holds most of them.
    """
    private, shared = 0, 0
    for pid in {root, *descendants(root)}:
        values = _memory(pid)
        private += values.get("RssAnon", 0)
        shared = max(shared, values.get("RssFile", 0) + values.get("RssShmem", 0))
    return private + shared


@dataclass
class RoundLog:
    """Costs of each round, divided into training (with aggregation) and evaluation.

    Attributes:
        root: the process whose tree is counted.
        rounds: one entry per round.
    """

    root: int = field(default_factory=os.getpid)
    rounds: list[dict[str, float]] = field(default_factory=list)
    _wall: float = field(default=0.0, repr=False)
    _cpu: float = field(default=0.0, repr=False)

    def start(self) -> None:
        """The first round begins now."""
        self._wall, self._cpu = time.perf_counter(), tree_cpu_seconds(self.root)

    def trained(self) -> None:
        """Training of the current round has ended, evaluation begins."""
        wall, cpu = self._lap()
        self.rounds.append({"train_wall": wall, "train_cpu": cpu})

    def evaluated(self, accuracy: float) -> None:
        """Evaluation has ended, the next round begins."""
        wall, cpu = self._lap()
        self.rounds[-1] |= {"eval_wall": wall, "eval_cpu": cpu, "accuracy": accuracy}

    def _lap(self) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), tree_cpu_seconds(self.root)
        spent = wall - self._wall, cpu - self._cpu
        self._wall, self._cpu = wall, cpu
        return spent

    def plain(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return {"rounds": asdict(self)["rounds"]}


def _stats(only: Iterable[int] | None = None) -> Iterable[tuple[int, list[str]]]:
    """(process, fields of its stat file after the name) of the processes that still are there."""
    pids = [int(p) for p in os.listdir(PROC) if p.isdigit()] if only is None else only
    for pid in pids:
        try:
            text = (PROC / str(pid) / "stat").read_text()
        except OSError:
            continue
        yield pid, text.rpartition(")")[2].split()


def _memory(pid: int) -> dict[str, int]:
    try:
        text = (PROC / str(pid) / "status").read_text()
    except OSError:
        return {}
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name.startswith(("Rss", "VmHWM")):
            values[name] = 1024 * int(rest.split()[0])
    return values
