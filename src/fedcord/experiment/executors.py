"""The way to reach clients that a run was asked to take."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from fedcord.core.atomic import remove_stale
from fedcord.core.contract import SharesWork
from fedcord.core.errors import ConfigError
from fedcord.engine.processes import ProcessesExecutor
from fedcord.engine.reuse import ReusingExecutor
from fedcord.engine.sequential import SequentialExecutor
from fedcord.engine.visit import Executor
from fedcord.engine.wire import WireExecutor
from fedcord.experiment.build import Experiment
from fedcord.store.provenance import versions


def check_reuse(reuse: Path | None) -> None:
    """Refuse a folder for clients' work that cannot be one."""
    if reuse is not None:
        try:
            reuse.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--reuse: '{reuse}' cannot be a folder ({error}).") from error
        remove_stale(reuse)


@contextlib.contextmanager
def open_executor(
    experiment: Experiment, engine: str, workers: int | None, reuse: Path | None
) -> Iterator[Executor]:
    """The executor of `engine`, closed at the end."""
    executor: Executor
    if engine == "processes":
        if experiment.config.threads != 1:
            raise ConfigError("engine 'processes' computes with one thread; leave --threads at 1.")
        executor = ProcessesExecutor(experiment.blueprint, experiment.population, workers)
    elif engine == "wire":
        executor = WireExecutor(experiment.blueprint, experiment.population)
    else:
        executor = SequentialExecutor(experiment.algorithm, experiment.task, experiment.population)
    if reuse is not None and isinstance(experiment.algorithm, SharesWork):
        values = json.dumps(experiment.blueprint.task_values, sort_keys=True)
        executor = ReusingExecutor(
            executor,
            experiment.algorithm,
            experiment.task,
            values,
            experiment.population,
            reuse,
            versions(),
        )
    try:
        yield executor
    finally:
        executor.close()
