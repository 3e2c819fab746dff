"""The way to reach clients that a run was asked to take."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from fedcord.core.atomic import remove_stale
from fedcord.core.errors import ConfigError
from fedcord.engine.agreement import Agreement
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.patience import Patience
from fedcord.engine.reuse import WorkCache
from fedcord.engine.transport import Transport
from fedcord.engine.transports.processes import ProcessesTransport
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.engine.transports.wire import WireTransport
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
def open_federation(
    experiment: Experiment,
    engine: str = "sequential",
    workers: int | None = None,
    reuse: Path | None = None,
    patience: Patience = Patience(),  # noqa: B008 - frozen
) -> Iterator[Federation]:
    """The experiment's simulated clients behind the transport of `engine`, closed at the end."""
    agreement = experiment.plan.agreement
    with contextlib.closing(_transport(experiment, engine, workers, reuse, agreement)) as transport:
        yield Federation(transport, experiment.config.hash, agreement, patience)


def _transport(
    experiment: Experiment,
    engine: str,
    workers: int | None,
    reuse: Path | None,
    agreement: Agreement,
) -> Transport:
    population, cache = experiment.population, None
    if reuse is not None and experiment.algorithm.traits.shares_work:
        values = json.dumps(experiment.plan.values_of_work, sort_keys=True)
        cache = WorkCache(reuse, values, versions())
    if engine == "processes":
        if experiment.config.threads != 1:
            raise ConfigError("engine 'processes' computes with one thread; leave --threads at 1.")
        return ProcessesTransport(experiment.blueprint, population, workers, agreement, cache)
    if engine == "wire":
        plan = experiment.blueprint
        return WireTransport.rebuilding(plan, population, agreement=agreement, cache=cache)
    lives_here = experiment.algorithm, experiment.task, population, InProcessMemory()
    attack = experiment.attack
    return SequentialTransport(ClientNode(*lives_here, agreement, cache, attack=attack))
