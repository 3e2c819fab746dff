"""Mirroring a run's numbers to a tracker: TensorBoard, MLflow or Weights & Biases.

A mirror copies; the run folder stays what results rest on. So a mirror gets every line of
`metrics.jsonl`, those before an interruption included, and when it breaks the run goes on without
it and says so. Only settings and numbers about the whole federation leave: no example, no tensor,
and nothing about a single client. Unless the tracker's own variables say otherwise, nothing leaves
the machine either: TensorBoard writes below the run folder, MLflow to `mlflow.db`, and Weights &
Biases works offline.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from fedcord.core.errors import unknown_name
from fedcord.experiment.config import RunConfig
from fedcord.store.checksums import PROVENANCE
from fedcord.store.run_folder import RunFolder

PROJECT = "fedcord"
"""The experiment or project that runs are filed under."""
AT_THE_END = ("validation_accuracy", "client_accuracy_mean")
"""What only a result has and is worth a curve's last point."""


@dataclass(frozen=True)
class Subject:
    """The run that is mirrored.

    Attributes:
        folder: of the run.
        name: under which a tracker shows it.
        identity: the same whenever this run is gone on with, and no other's.
        settings: all of them, by dotted name.
    """

    folder: Path
    name: str
    identity: str
    settings: Mapping[str, Any]


class Tracker(Protocol):
    """Somebody who draws curves."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the numbers of a round."""

    def close(self, is_finished: bool) -> None:
        """Let go, of a run that has ended or was interrupted."""


class TensorBoard:
    """Event files below the run folder, for `tensorboard --logdir runs`."""

    def __init__(self, subject: Subject) -> None:
        from tensorboardX import SummaryWriter

        place = subject.folder / "tensorboard"
        if place.exists():  # of the same run before it was interrupted; all of it comes again
            shutil.rmtree(place)
        self._writer = SummaryWriter(str(place), flush_secs=2)
        rows = (f"| {name} | {value} |" for name, value in subject.settings.items())
        self._writer.add_text("settings", "\n".join(["| setting | value |", "|---|---|", *rows]))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, is_finished: bool) -> None:
        """Write what is left."""
        self._writer.close()


class MLflow:
    """A run of the experiment `fedcord` at `MLFLOW_TRACKING_URI`, or in `mlflow.db`."""

    def __init__(self, subject: Subject) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        self._client = MlflowClient()
        known = self._client.get_experiment_by_name(PROJECT)
        experiment = known.experiment_id if known else self._client.create_experiment(PROJECT)
        mine = f"tags.`fedcord.run` = '{subject.identity}'"
        found = self._client.search_runs([experiment], mine)
        self._done = 0
        if found:
            self._id = found[0].info.run_id
            self._done = int(found[0].data.tags.get("fedcord.round", "0"))
            self._client.update_run(self._id, status="RUNNING")
            return
        tags = {"fedcord.run": subject.identity, "fedcord.folder": str(subject.folder)}
        made = self._client.create_run(experiment, run_name=subject.name, tags=tags)
        self._id = made.info.run_id
        for name, value in subject.settings.items():
            self._client.log_param(self._id, name, value)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each curve, unless an earlier part of the run has sent it."""
        if step <= self._done:
            return
        for name, value in values.items():
            self._client.log_metric(self._id, name, value, step=step)
        self._client.set_tag(self._id, "fedcord.round", str(step))
        self._done = step

    def close(self, is_finished: bool) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._id, "FINISHED" if is_finished else "KILLED")


class WeightsAndBiases:
    """A run of the project `fedcord`; offline below the run folder unless `WANDB_MODE` is set."""

    def __init__(self, subject: Subject) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=subject.identity,
            name=subject.name,
            config=dict(subject.settings),
            dir=os.environ.get("WANDB_DIR", str(subject.folder)),
            mode=mode,
            resume=None if mode == "offline" else "allow",
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, save_code=False, disable_code=True
            ),
        )
        self._done = self._run.step - 1 if self._run.resumed else -1

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One point on each curve, unless an earlier part of the run has sent it."""
        if step > self._done:
            self._run.log(dict(values), step=step)

    def close(self, is_finished: bool) -> None:
        """Write what is left."""
        self._run.finish(exit_code=0 if is_finished else 1)


@dataclass(frozen=True)
class _Kind:
    package: str
    make: Callable[[Subject], Tracker]


TRACKERS = {
    "tensorboard": _Kind("tensorboardX", TensorBoard),
    "mlflow": _Kind("mlflow", MLflow),
    "wandb": _Kind("wandb", WeightsAndBiases),
}
"""Each is also the name of the extra that installs its package."""


def tracker_problems(names: Sequence[str]) -> list[str]:
    """What stands against mirroring to these, in words."""
    problems = []
    for name in names:
        if name not in TRACKERS:
            problems.append(unknown_name("tracker", str(name), list(TRACKERS)))
        elif importlib.util.find_spec(TRACKERS[name].package) is None:
            problems.append(
                f"--track {name} needs the package {TRACKERS[name].package}, which is not "
                f"installed here; install it with: pip install 'fedcord[{name}]'."
            )
    return problems


class Mirror:
    """The trackers of one run. None of them can stop it."""

    def __init__(self, subject: Subject, names: Sequence[str], note: Callable[[str], None]) -> None:
        self._note = note
        self._trackers: dict[str, Tracker] = {}
        self._last = 0
        self._is_finished = False
        for name in names:
            with self._going_on_without(name):
                self._trackers[name] = TRACKERS[name].make(subject)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, tracker in list(self._trackers.items()):
            with self._going_on_without(name):
                tracker.close(self._is_finished)

    def round(self, line: Mapping[str, Any]) -> None:
        """Copy a line of `metrics.jsonl`."""
        self._last = int(line["round"])
        self._log(self._last, numbers_of(line))

    def result(self, result: Mapping[str, Any]) -> None:
        """Copy what only the end of a run knows."""
        known = {name: result.get(name) for name in AT_THE_END}
        self._log(self._last + 1, numbers_of(known))
        self._is_finished = True

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        for name, tracker in list(self._trackers.items()):
            with self._going_on_without(name):
                tracker.log(step, values)

    @contextmanager
    def _going_on_without(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever a tracker raises, a run of hours is worth more
            self._trackers.pop(name, None)
            self._note(f"--track {name}: {error}; the run goes on without it")


def numbers_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line about all clients together, the server's own among them."""
    own = line.get("server_metrics", {})
    values = {**line, **{f"server/{name}": value for name, value in own.items()}}
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and name != "round"
        and math.isfinite(value)
    }


def mirror_of(
    folder: RunFolder, config: RunConfig, names: Sequence[str], note: Callable[[str], None]
) -> Mirror:
    """The mirror of a run that has begun; `note` hears of trackers that break."""
    began = str(folder.read_json(PROVENANCE).get("started"))
    return Mirror(subject_of(folder.path, config, began), names, note)


def subject_of(folder: Path, config: RunConfig, began: str) -> Subject:
    """A run as trackers are to know it; `began` tells it from an earlier one in the same folder."""
    place = folder.resolve()
    of_a_study = place.name.startswith("seed-")
    name = "/".join(place.parts[-3:]) if of_a_study else place.name
    text = f"{place}\n{config.hash}\n{began}"
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Subject(folder, name, identity, dict(_flat(config.plain())))


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, int | float) else str(value)
