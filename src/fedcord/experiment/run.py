"""One run, from configuration to result, safe against crashes."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from fedcord.core.contract import Env, ServerState, SharesWork
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.tensors import hash_tensors
from fedcord.data.dataset import Dataset
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.memory import keep_freed_memory
from fedcord.engine.processes import ProcessesExecutor
from fedcord.engine.reuse import ReusingExecutor
from fedcord.engine.rounds import (
    RoundRecord,
    Schedule,
    finish_clients,
    run_rounds,
    validate_clients,
)
from fedcord.engine.sampling import sample_clients
from fedcord.engine.sequential import SequentialExecutor
from fedcord.engine.visit import Executor
from fedcord.engine.wire import WireExecutor
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.config import RunConfig, engine_problems
from fedcord.models.registry import auto_model
from fedcord.store.checkpoint import Checkpoint, load_newest, save_checkpoint
from fedcord.store.provenance import provenance
from fedcord.store.run_folder import RunFolder

ABOUT_ACCURACY = ("own_models", "accuracy_by_rule")
"""What a round's line says about its accuracy where a method has it, repeated in the result."""

CHECKPOINT_SECONDS = 1.0
"""At most one checkpoint in this time, so that short rounds do not wait for the disk."""


@dataclass(frozen=True)
class Progress:
    """Callbacks for someone who watches; all optional.

    Attributes:
        started: (experiment, rounds already done) once everything is built.
        client: a client's answer arrived; its number of training examples.
        round: a round ended.
        feature: (done, to do) while a frozen network computes features that are not stored yet.
        download: (bytes held, bytes in all or None) while data is fetched.
    """

    started: Callable[[Experiment, int], None] = lambda experiment, done: None
    client: Callable[[int], None] = lambda examples: None
    round: Callable[[RoundRecord], None] = lambda record: None
    feature: Callable[[int, int], None] = lambda done, total: None
    download: Callable[[int, int | None], None] = lambda held, total: None


@dataclass(frozen=True)
class Place:
    """Where and how a run happens; none of it changes the result.

    Attributes:
        out: the run folder.
        engine: sequential, processes or wire.
        resume: go on with what the folder holds.
        workers: processes of the processes engine; None for one per core.
        data_dirs: where to look for data; None for the usual places.
        allow_download: fetch missing data from its official place.
        reuse: folder of clients' work to take from and add to.
    """

    out: Path
    engine: str = "sequential"
    resume: bool = False
    workers: int | None = None
    data_dirs: Sequence[Path] | None = None
    allow_download: bool = False
    reuse: Path | None = None

    def __post_init__(self) -> None:
        problems = engine_problems(self.engine, self.workers)
        if problems:
            raise ConfigError(problems)


def new_run_folder(root: Path, config: RunConfig) -> Path:
    """A folder name nobody has used: time, algorithm, data, seed."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    data = config.dataset.split(":")[0].split("?")[0]
    base = f"{stamp}-{config.algorithm}-{data}-seed{config.seed}"
    path, number = root / base, 1
    while path.exists():
        number += 1
        path = root / f"{base}-{number}"
    return path


def find_run_to_resume(root: Path, config: RunConfig) -> Path:
    """The newest run in `root` with this very configuration."""
    for path in sorted(root.glob("*/config.toml"), reverse=True):
        folder = RunFolder(path.parent)
        with contextlib.suppress(CheckpointError):
            if not config.differences(folder.read_config()):
                return folder.path
    raise ConfigError(
        f"--resume: no run with these settings in '{root}'; name its folder with --out, or leave "
        "--resume out."
    )


def run(
    config: RunConfig,
    place: Place,
    progress: Progress | None = None,
    dataset: Dataset | None = None,
) -> dict[str, Any]:
    """Run, or go on running, and return the content of `result.json`.

    A finished run is not repeated: its result is returned as it is.
    """
    watch = progress or Progress()
    if place.reuse is not None:
        try:
            place.reuse.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--reuse: '{place.reuse}' cannot be a folder ({error}).") from error
    folder = RunFolder(place.out)
    _check_folder(folder, config, place.resume)
    if folder.is_finished:
        result: dict[str, Any] = folder.read_json("result.json")
        return result
    experiment = build_experiment(
        config, dataset, place.data_dirs, place.allow_download, watch.feature, watch.download
    )
    if not folder.is_started:  # what does not fit the task shows before anything is written
        experiment.algorithm.init(_env(experiment))
    folder.create()
    with folder.lock():
        _check_folder(folder, config, place.resume)  # again: now nobody else can write
        if not folder.is_started:
            _write_start(folder, experiment)
        with _executor(experiment, place) as executor:
            return _run(folder, experiment, executor, place, watch)


def _env(experiment: Experiment) -> Env:
    """The server's place before the first round."""
    assert experiment.config.rounds is not None
    return Env(experiment.task, experiment.config.seed, num_rounds=experiment.config.rounds)


def _check_folder(folder: RunFolder, config: RunConfig, resume: bool) -> None:
    if not folder.is_started:
        if folder.path.exists() and any(p.name != ".lock" for p in folder.path.iterdir()):
            inside = [p.name for p in folder.path.iterdir()]
            if inside != ["checkpoints"] and set(inside) != {"checkpoints", ".lock"}:
                raise ConfigError(
                    f"'{folder.path}' holds other files; choose an empty folder with --out."
                )
        return
    if not resume:
        state = "finished" if folder.is_finished else "unfinished"
        raise ConfigError(
            f"'{folder.path}' already holds a run ({state}); add --resume to go on with it, or "
            "choose another folder with --out."
        )
    differences = config.differences(folder.read_config())
    if differences:
        raise ConfigError(
            f"'{folder.path}' holds a run with other settings ({'; '.join(differences)}); "
            "use the same settings, or another folder."
        )


def _write_start(folder: RunFolder, experiment: Experiment) -> None:
    config, dataset, partition = experiment.config, experiment.dataset, experiment.partition
    folder.write_json(
        "partition.json",
        {
            "spec": partition.spec,
            "hash": partition.hash,
            "num_clients": partition.num_clients,
            "num_classes": dataset.num_classes,
            "class_names": list(dataset.class_names),
            "counts": partition.counts(dataset.train.labels, dataset.num_classes).tolist(),
            "indices": [indices.tolist() for indices in partition.clients],
        },
    )
    command = shlex.join(["fedcord", *sys.argv[1:]])
    origin = provenance(
        config_hash=config.hash,
        partition_hash=partition.hash,
        data_hash=hash_tensors(experiment.population.tensors()),
        threads=config.threads,
        command=command,
    )
    folder.write_json("provenance.json", origin)
    folder.write_config(config.plain())  # last: its presence says that the rest is there


@contextlib.contextmanager
def _executor(experiment: Experiment, place: Place) -> Iterator[Executor]:
    keep_freed_memory()
    executor: Executor
    if place.engine == "processes":
        if experiment.config.threads != 1:
            raise ConfigError("engine 'processes' computes with one thread; leave --threads at 1.")
        executor = ProcessesExecutor(experiment.blueprint, experiment.population, place.workers)
    elif place.engine == "wire":
        executor = WireExecutor(experiment.blueprint, experiment.population)
    else:
        executor = SequentialExecutor(experiment.algorithm, experiment.task, experiment.population)
    if place.reuse is not None and isinstance(experiment.algorithm, SharesWork):
        values = json.dumps(experiment.blueprint.task_values, sort_keys=True)
        executor = ReusingExecutor(
            executor,
            experiment.algorithm,
            experiment.task,
            values,
            experiment.population,
            place.reuse,
        )
    try:
        yield executor
    finally:
        executor.close()


def _run(
    folder: RunFolder,
    experiment: Experiment,
    executor: Executor,
    place: Place,
    watch: Progress,
) -> dict[str, Any]:
    config, population, algorithm = experiment.config, experiment.population, experiment.algorithm
    env = _env(experiment)
    state = _restore(folder, experiment, executor) or algorithm.init(env)
    folder.rewind_metrics(state.round)
    sizes = population.train_sizes
    eligible = [client for client, size in enumerate(sizes) if size > 0]
    count = max(1, math.floor(config.participation * len(eligible) + 0.5))
    schedule = Schedule(
        env.num_rounds,
        lambda round_: sample_clients(config.seed, round_, eligible, count),
        config.evaluate_every,
        config.threads,
    )
    watch.started(experiment, state.round)
    saved_at = time.monotonic()

    def on_round(state: ServerState, record: RoundRecord) -> None:
        nonlocal saved_at
        if isinstance(executor, ReusingExecutor):  # a run costs what its clients' work cost
            record = replace(record, seconds=record.seconds + executor.saved_seconds)
            executor.saved_seconds = 0.0
        folder.append_metrics(_metrics(record, experiment))
        if time.monotonic() - saved_at >= CHECKPOINT_SECONDS or state.round == config.rounds:
            checkpoint = Checkpoint(state, executor.memories)
            save_checkpoint(folder.checkpoints, checkpoint, config.hash)
            saved_at = time.monotonic()
        watch.round(record)

    state = run_rounds(
        algorithm,
        executor,
        env,
        state,
        schedule,
        on_round,
        lambda client: watch.client(sizes[client]),
    )
    local = finish_clients(algorithm, executor, state, config.seed, eligible, config.threads)
    for_selection = Evaluation()
    if config.validation > 0:
        for_selection = validate_clients(executor, state, config.seed, eligible, config.threads)
    final = Checkpoint(state, executor.memories)
    result = _result(folder, experiment, place, final, local, for_selection)
    folder.write_json("result.json", result)
    return result


def _restore(folder: RunFolder, experiment: Experiment, executor: Executor) -> ServerState | None:
    folder.remove_leftovers()
    saved = load_newest(folder.checkpoints, experiment.config.hash)
    if saved is None:
        return None
    origin = folder.read_json("provenance.json")
    if origin.get("data_hash") != hash_tensors(experiment.population.tensors()):
        raise CheckpointError(
            f"the data is not what the run in '{folder.path}' began with; restore that data, or "
            "start a new run."
        )
    executor.memories.update(saved.memories)
    return saved.state


def _metrics(record: RoundRecord, experiment: Experiment) -> dict[str, Any]:
    line: dict[str, Any] = {
        "round": record.round,
        "clients": record.participants,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "seconds": round(record.seconds, 6),
        "refused": list(record.refused),
    }
    if record.notes:
        line["notes"] = list(record.notes)
    if record.client_metrics:
        line["client_metrics"] = {str(k): m for k, m in record.client_metrics.items()}
    if record.server_metrics:
        line["server_metrics"] = dict(record.server_metrics)
    if record.train_loss is not None:
        line["train_loss"] = record.train_loss
    if record.evaluation is not None:
        line["accuracy"] = record.evaluation.accuracy
        line["balanced_accuracy"] = record.evaluation.balanced_accuracy
        line["loss"] = record.evaluation.loss
        for name, accuracies in record.evaluation.group_accuracy().items():
            names = experiment.dataset.group_names[name]
            line[f"per_{name}"] = {names[k]: value for k, value in accuracies.items()}
        if record.own_models is not None:
            line["own_models"] = record.own_models
        if record.evaluation.by_rule:
            line["accuracy_by_rule"] = record.evaluation.rule_accuracy()
    return line


def _resolved(model: str, dataset: Dataset) -> str:
    """The network that `auto` stood for."""
    return auto_model(dataset.kind, dataset.input_shape) if model == "auto" else model


def _result(
    folder: RunFolder,
    experiment: Experiment,
    place: Place,
    final: Checkpoint,
    local: dict[int, Evaluation],
    for_selection: Evaluation,
) -> dict[str, Any]:
    config, metrics = experiment.config, folder.read_metrics()
    last = metrics[-1]
    accuracies = {client: evaluation.accuracy for client, evaluation in local.items()}
    return {
        "algorithm": config.algorithm,
        "dataset": config.dataset,
        "partition": experiment.partition.spec,
        "partition_hash": experiment.partition.hash,
        "clients": experiment.partition.num_clients,
        "rounds": config.rounds,
        "seed": config.seed,
        "model": [_resolved(model, experiment.dataset) for model in config.model],
        "accuracy": last["accuracy"],
        "balanced_accuracy": last.get("balanced_accuracy"),  # older versions did not measure it
        "loss": last["loss"],
        "validation_accuracy": for_selection.accuracy if for_selection.total else None,
        "client_accuracy_mean": statistics.fmean(accuracies.values()) if accuracies else None,
        "client_accuracy": [accuracies.get(k) for k in range(experiment.partition.num_clients)],
        "bytes_up": sum(line["bytes_up"] for line in metrics),
        "bytes_down": sum(line["bytes_down"] for line in metrics),
        "seconds": round(sum(line["seconds"] for line in metrics), 3),
        "refused": sum(len(line["refused"]) for line in metrics),
        "state_hash": final.hash,
        "config_hash": config.hash,
        "engine": place.engine,
        "run_dir": str(folder.path),
        **{k: v for k, v in last.items() if k.startswith("per_") or k in ABOUT_ACCURACY},
    }
