"""The one ServerApp: the round loop of every other engine, over Flower's grid."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedcord.core.atomic import write_atomically
from fedcord.core.device import chosen_device
from fedcord.core.errors import ConfigError, FedcordError
from fedcord.engine.patience import Patience
from fedcord.engine.rounds import RoundRecord
from fedcord.engine.transport import Transport
from fedcord.experiment.config import RunConfig
from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.folders import RUNS, find_run_to_resume
from fedcord.experiment.run import Known, Place, Progress, run
from fedcord.experiment.survey import Sites
from fedcord.experiment.terms import Terms
from fedcord.flower.app_folder import AppConfig
from fedcord.flower.signals import let_signals_wake_main_thread
from fedcord.flower.transport import FlowerTransport

app = ServerApp()
log = logging.getLogger("flwr")  # whose lines `flwr run --stream` shows


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run, or go on running, what the app says."""
    # Flower's simulation runs an app in another thread, where no signal can be handled
    if threading.current_thread() is threading.main_thread():
        let_signals_wake_main_thread()
    told = AppConfig.from_run_config(context.run_config)
    outcome: dict[str, Any] = {}
    try:
        outcome = {"result": _run(grid, told)}
    except FedcordError as error:
        log.error("%s", error)
        problems = list(error.problems) if isinstance(error, ConfigError) else [str(error)]
        outcome = {"error": type(error).__name__, "problems": problems}
        raise
    except OSError as error:
        outcome = {"error": "OSError", "problems": [str(error)]}
        raise
    finally:
        if told.outcome and outcome:
            write_atomically(Path(told.outcome), json.dumps(outcome))


def _run(grid: Grid, told: AppConfig) -> dict[str, Any]:
    config = told.config()
    out = Path(told.out) if told.out else None
    if out is None and told.resume:
        out = find_run_to_resume(RUNS, config)

    def reach(terms: Terms) -> Transport:
        transport = FlowerTransport(grid, terms.to_json())
        transport.wait_for(config.clients, told.wait, lambda n: _waiting(n, config.clients))
        return transport

    place = Place(
        out,
        resume=told.resume or told.retry_failed,
        data_dirs=[Path(folder) for folder in told.data_dirs] or None,
        retry_failed=told.retry_failed,
        patience=Patience(told.quorum, told.deadline or None),
        metric=told.metric,
    )
    device = chosen_device(told.device) if told.device else None
    sites = Sites(reach, told.stated(), "flower", device)
    start = read_finished(Path(told.start), place.data_dirs) if told.start else None
    return run(config, place, _progress(config), sites=sites, start=start)


def _waiting(there: int, wanted: int) -> None:
    log.info("%s of %s nodes are connected", there, wanted)


def _progress(config: RunConfig) -> Progress:
    """A line for everything that a coordinator wants to see at once."""

    def started(known: Known, done: int) -> None:
        log.info("%s: %s of %s rounds are done", config.algorithm, done, config.rounds)

    def round_(record: RoundRecord) -> None:
        found = record.evaluation
        accuracy = "" if found is None else f", accuracy {found.accuracy:.4f}"
        log.info("round %s of %s%s", record.round, config.rounds, accuracy)
        for client, why in record.missing.items():
            log.warning("round %s: client %s %s", record.round, client, why)
        for event in (*record.refused, *record.events, *record.notes):
            log.warning("round %s: %s", record.round, event)

    return Progress(started=started, round=round_, note=lambda text: log.info("%s", text))
