"""A process that does runs of a study, one after another, for the process that leads the study.

It is sent a run as plain values, tells how it goes, and says at the end whether there is a result.
A run writes its folder itself, exactly as it does where it is the only one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from fedcord.core import errors
from fedcord.core.errors import CheckpointError, FailedRunError, FedcordError, ProtocolError
from fedcord.engine.patience import Patience
from fedcord.experiment.config import RunConfig
from fedcord.experiment.job_data import dataset_from
from fedcord.experiment.load import load_config
from fedcord.experiment.news import RunNews
from fedcord.experiment.run import Place, failure_record, run
from fedcord.store.checksums import FAILURE
from fedcord.store.run_folder import RunFolder

ENDS_ALL = (CheckpointError, OSError)
"""What is wrong with a folder or a disk is to be put right before a study goes on."""
SECONDS_BETWEEN_NEWS = 0.2
"""Examples and features are counted together so long: nobody looks more often."""


def message(config: RunConfig, place: Place, dataset: Mapping[str, Any] | None) -> bytes:
    """A run for `serve`: settings, where and how, and how to read a data set that has no name."""
    where = {
        **{
            name: getattr(place, name)
            for name in ("engine", "resume", "workers", "retry_failed", "metric", "track")
        },
        "allow_download": place.allow_download,
        "out": str(place.out),
        "data_dirs": None if place.data_dirs is None else [str(d) for d in place.data_dirs],
        "reuse": None if place.reuse is None else str(place.reuse),
        "patience": asdict(place.patience),
    }
    settings = {**config.plain(), "device": config.device}  # with the number of its card
    job = {"config": settings, "hash": config.hash, "place": where, "dataset": dataset}
    return json.dumps({**job, "command": sys.argv}).encode()


def serve(descriptor: int, data: int = -1) -> None:
    """Do what the parent sends until it goes away.

    Args:
        descriptor: of the socket to the parent.
        data: the file of a data set that was passed as an object; below 0 for none.
    """
    torch.set_num_threads(1)
    with Connection(descriptor) as parent:
        gone = EOFError, BrokenPipeError, ConnectionResetError
        with contextlib.suppress(*gone):  # the parent has ended; so do we
            while True:
                job = json.loads(parent.recv_bytes())
                parent.send_bytes(json.dumps(_done(job, data, parent)).encode())


def _done(job: Mapping[str, Any], data: int, parent: Connection) -> dict[str, Any]:
    """Do a run, and say how it ended."""
    sys.argv = job["command"]  # a run notes the command that asked for it
    where = dict(job["place"])
    data_dirs, reuse = where.pop("data_dirs"), where.pop("reuse")
    place = Place(
        out=Path(where.pop("out")),
        data_dirs=None if data_dirs is None else [Path(folder) for folder in data_dirs],
        reuse=None if reuse is None else Path(reuse),
        patience=Patience(**where.pop("patience")),
        **where,
    )
    assert place.out is not None
    try:
        config = load_config(job["config"])
        if config.hash != job["hash"]:
            raise ProtocolError("it is made of other settings in another process.")
        dataset = None if job["dataset"] is None else dataset_from(data, job["dataset"])
        run(config, place, _news(parent).progress(), dataset)
    except FailedRunError:  # before, and it is not to be tried again
        return ended(RunFolder(place.out).read_json(FAILURE))
    except ENDS_ALL as error:
        return ended(None, error)
    except Exception as error:
        return ended(failure_record(job["config"]["algorithm"], job["config"]["seed"], error))
    return ended(None)


def ended(failure: Mapping[str, Any] | None, ends_all: Exception | None = None) -> dict[str, Any]:
    """The last message about a run: why it has no result, and whether the study can go on."""
    values: dict[str, Any] = {"what": "ended", "failure": failure, "ends_all": None}
    if isinstance(ends_all, OSError):
        about = ends_all.errno, ends_all.strerror, ends_all.filename
        name = None if about[2] is None else os.fsdecode(about[2])
        values["ends_all"] = {"os": [about[0], about[1] or str(ends_all), name]}
    elif ends_all is not None:
        values["ends_all"] = {"error": type(ends_all).__name__, "message": str(ends_all)}
    return values


def error_from(values: Mapping[str, Any]) -> Exception:
    """What `ended` was told of: the same kind of error with the same words."""
    if "os" in values:
        return OSError(*values["os"])
    kind = getattr(errors, str(values["error"]), None)
    is_ours = isinstance(kind, type) and issubclass(kind, FedcordError)
    made: Exception = (kind if is_ours else CheckpointError)(values["message"])  # type: ignore[misc]
    return made


def _news(parent: Connection) -> RunNews:
    """Tells the parent; what comes often is counted together."""
    said = dict[str, float]()
    waiting = 0

    def send(what: str, *values: Any) -> None:
        parent.send_bytes(json.dumps({"what": what, "values": values}).encode())

    def is_due(what: str) -> bool:
        now = time.monotonic()
        if now - said.get(what, -SECONDS_BETWEEN_NEWS) < SECONDS_BETWEEN_NEWS:
            return False
        said[what] = now
        return True

    def examples(count: int) -> None:
        nonlocal waiting
        waiting += count
        if is_due("examples"):
            send("examples", waiting)
            waiting = 0

    def round_(number: int, accuracy: float | None, notes: Any) -> None:
        nonlocal waiting
        send("examples", waiting)
        waiting = 0
        send("round", number, accuracy, list(notes))

    def counted(what: str, done: int, total: int | None) -> None:
        if is_due(what) or done == total:
            send(what, done, total)

    return RunNews(
        started=lambda rounds, done, notes: send("started", rounds, done, list(notes)),
        examples=examples,
        round=round_,
        feature=lambda done, total: counted("feature", done, total),
        download=lambda held, total: counted("download", held, total),
        note=lambda text: send("note", text),
    )
