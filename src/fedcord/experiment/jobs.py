"""The runs of a study side by side: several processes, one thread each.

Runs share nothing but the data they read and the folder of `--reuse`, in which files appear whole
or not at all. So their order and number at a time change no bit. A process does one run after
another; one that is killed fails its run only, and another takes its place.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fedcord.core.device import CPU
from fedcord.core.errors import ConfigError, shown
from fedcord.data.dataset import Dataset
from fedcord.engine.blueprint import is_importable
from fedcord.engine.child import CAN_START, Child, available_cores
from fedcord.experiment.config import MAX_WORKERS, RunConfig
from fedcord.experiment.job import ended, error_from, message
from fedcord.experiment.job_data import HandedOver, handed_over
from fedcord.experiment.job_order import JobOrder
from fedcord.experiment.news import RunNews, StudyNews
from fedcord.experiment.run import Place
from fedcord.experiment.workers import Workers

SECONDS_BETWEEN_GUESSES = 1.0
"""How often the time left is told."""


@dataclass(frozen=True)
class Job:
    """One run of a study and its folder."""

    label: str
    config: RunConfig
    out: Path

    @property
    def can_run_elsewhere(self) -> bool:
        """Whether another process can import the algorithm."""
        cls = type(self.config.method)
        return is_importable(cls.__module__, cls.__qualname__)


def job_count(asked: Any, configs: Sequence[RunConfig], engine: str) -> int:
    """How many runs at a time.

    Args:
        asked: a whole number, or None for what suits: a core for each thread, unless the engine
            `processes` or another device than the CPU is there for one run as a whole.
        configs: of the runs.
        engine: of the runs.
    """
    if asked is None:
        threads = max((config.threads for config in configs), default=1)
        alone = engine == "processes" or not CAN_START
        alone |= any(config.device != CPU for config in configs)  # whose memory is for one
        return 1 if alone else max(1, available_cores() // threads)
    if not isinstance(asked, int) or isinstance(asked, bool) or not 1 <= asked <= MAX_WORKERS:
        raise ConfigError(
            f"jobs = {shown(asked)}: must be a whole number from 1 to {MAX_WORKERS}, how many runs "
            "at a time."
        )
    if asked > 1 and engine == "processes":
        raise ConfigError(
            f"jobs = {asked} with engine 'processes': its workers use all cores for one run; leave "
            "one of the two out. For many small runs jobs are faster, for few long ones workers."
        )
    if asked > 1 and not CAN_START:
        raise ConfigError(f"jobs = {asked}: needs Linux or macOS; give 1.")
    return asked


def reason(failure: Mapping[str, Any]) -> str:
    """Why a run has no result, in one line."""
    return f"{failure.get('error')}: {failure.get('message')}"


def run_jobs(
    jobs: Sequence[Job],
    place: Place,
    count: int,
    order: JobOrder,
    news: StudyNews,
    dataset: Dataset | None = None,
    workers: Workers | None = None,
) -> Iterator[tuple[Job, Mapping[str, Any] | None]]:
    """Do runs in `count` processes at a time, and yield each as it ends, with its failure if any.

    Whoever stops listening ends those that are under way; they can be gone on with.

    Args:
        jobs: runs that other processes can do.
        place: how; each job has its own folder.
        count: how many at a time.
        order: which first.
        news: for someone who watches.
        dataset: the user's own data instead of the configured name.
        workers: processes that are there, and stay for whatever comes next; None: some are started
            and ended here, as they must be where there is a `dataset`.

    Raises:
        CheckpointError: a run found something in a folder that ends the study.
        OSError: likewise with the disk.
    """
    with contextlib.ExitStack() as held:
        data = held.enter_context(handed_over(dataset))
        if workers is None or data is not None:
            workers = Workers(None if data is None else data.file)
            held.enter_context(contextlib.closing(workers))
        pool = _Pool(workers, place, news, data)
        try:
            yield from pool.run(list(jobs), min(count, len(jobs)), order)
        finally:
            workers.end(pool.busy())


@dataclass
class _Running:
    """A run under way."""

    job: Job
    watch: RunNews
    since: float


class _Pool:
    """Processes and what they are doing."""

    def __init__(
        self, workers: Workers, place: Place, news: StudyNews, data: HandedOver | None
    ) -> None:
        self._workers = workers
        self._place = place
        self._news = news
        self._data = data
        self._busy: dict[Connection, _Running] = {}

    def busy(self) -> list[Child]:
        """Those that are at a run."""
        return [child for child in self._workers.children if child.connection in self._busy]

    def run(
        self, waiting: list[Job], count: int, order: JobOrder
    ) -> Iterator[tuple[Job, Mapping[str, Any] | None]]:
        guessed = -SECONDS_BETWEEN_GUESSES
        while waiting or self._busy:
            self._workers.drop_ended(set(self._busy))
            self._workers.start(min(count, len(waiting) + len(self._busy)))
            for child in self._workers.children[:count]:
                if waiting and child.connection not in self._busy:
                    job = self._next(waiting, order)
                    waiting.remove(job)
                    self._give(child, job)
            ready = wait(list(self._busy), SECONDS_BETWEEN_GUESSES)
            for connection in ready:
                assert isinstance(connection, Connection)
                end = self._heard(connection)
                if end is None:
                    continue
                if end["ends_all"] is not None:
                    raise error_from(end["ends_all"])
                running, failure = self._busy.pop(connection), end["failure"]
                job = running.job
                if failure is None:
                    order.measured(job.label, time.monotonic() - running.since)
                why = None if failure is None else reason(failure)
                self._news.ends(job.label, job.config, why)
                yield job, failure
            if order.is_measured and time.monotonic() - guessed >= SECONDS_BETWEEN_GUESSES:
                guessed = time.monotonic()
                under_way = [(r.job.label, guessed - r.since) for r in self._busy.values()]
                left = order.seconds_left([job.label for job in waiting], under_way, count)
                self._news.seconds_left(left)

    def _next(self, waiting: Sequence[Job], order: JobOrder) -> Job:
        """The longest run; where work is reused, rather of a seed that nobody is at.

        Two runs of one seed at a time would do side by side what the second could have taken over.
        """
        taken = set()
        if self._place.reuse is not None:
            taken = {running.job.config.seed for running in self._busy.values()}
        return max(
            waiting, key=lambda job: (job.config.seed not in taken, order.expected(job.label))
        )

    def _give(self, child: Child, job: Job) -> None:
        """Have a process do a run."""
        watch = self._news.begins(job.label, job.config)
        self._busy[child.connection] = _Running(job, watch, time.monotonic())
        data = None if self._data is None else self._data.plain
        there = replace(self._place, out=job.out)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # as we shall hear
            child.connection.send_bytes(message(job.config, there, data))

    def _heard(self, connection: Connection) -> dict[str, Any] | None:
        """Pass on what a process says; what it says last of a run, or that it said nothing."""
        try:
            said: dict[str, Any] = json.loads(connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            return ended({"error": "Killed", "message": self._why(connection)})
        if said["what"] == "ended":
            return said
        getattr(self._busy[connection].watch, said["what"])(*said["values"])
        return None

    def _why(self, connection: Connection) -> str:
        """Why a process has ended without a word."""
        child = next(c for c in self._workers.children if c.connection is connection)
        code = child.process.wait()
        if code >= 0:
            return f"its process ended with code {code} (its own message is above)"
        name = signal.Signals(-code).name
        perhaps = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{perhaps}; --resume goes on with it"
