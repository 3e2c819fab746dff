"""One run, from configuration to result, safe against crashes."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcord.core.contract import Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError, DataError, FedcordError
from fedcord.data.dataset import Dataset
from fedcord.engine.evaluation import Evaluation
from fedcord.engine.federation import Federation, Patience
from fedcord.engine.rounds import (
    RoundRecord,
    Schedule,
    finish_clients,
    run_rounds,
    validate_clients,
)
from fedcord.engine.sampling import exchange_at, sample_clients
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.config import RunConfig, engine_problems
from fedcord.experiment.engines import check_reuse, open_federation
from fedcord.experiment.folders import RUNS, check_folder, make_new_folder
from fedcord.experiment.records import (
    clients_record,
    partition_record,
    provenance_record,
    result_record,
    round_record,
)
from fedcord.secure.threshold import LEAST_SITES
from fedcord.store.checkpoint import (
    Checkpoint,
    load_newest,
    remove_old,
    save_checkpoint,
    save_personal,
)
from fedcord.store.checksums import PROVENANCE, RESULT
from fedcord.store.provenance import changes_since
from fedcord.store.run_folder import FAILURE, RunFolder

CHECKPOINT_SECONDS = 1.0
"""At most one checkpoint in this time, so that short rounds do not wait for the disk."""

NO_FAILURES = (ConfigError, DataError, CheckpointError, OSError)
"""What is wrong outside a run: put right, the same run goes on. Anything else fails it."""


@dataclass(frozen=True)
class Progress:
    """Callbacks for someone who watches; all optional.

    Attributes:
        started: (experiment, rounds already done) once everything is built.
        client: a client's answer arrived; its number of training examples.
        round: a round ended.
        feature: (done, to do) while a frozen network computes features that are not stored yet.
        download: (bytes held, bytes in all or None) while data is fetched.
        note: something worth knowing about a run that is gone on with.
    """

    started: Callable[[Experiment, int], None] = lambda experiment, done: None
    client: Callable[[int], None] = lambda examples: None
    round: Callable[[RoundRecord], None] = lambda record: None
    feature: Callable[[int, int], None] = lambda done, total: None
    download: Callable[[int, int | None], None] = lambda held, total: None
    note: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Place:
    """Where and how a run happens; none of it changes the result.

    Attributes:
        out: the run folder; None for a new one under `runs/`.
        engine: sequential, processes or wire.
        resume: go on with what the folder holds.
        workers: processes of the processes engine, one per core at most; None for as many.
        data_dirs: where to look for data; None for the usual places.
        allow_download: fetch missing data from its official place.
        reuse: folder of clients' work to take from and add to.
        retry_failed: with `resume`: also go on with a run that has failed.
        patience: who must answer, and how soon; all, and whenever they like, if nothing is said.
    """

    out: Path | None
    engine: str = "sequential"
    resume: bool = False
    workers: int | None = None
    data_dirs: Sequence[Path] | None = None
    allow_download: bool = False
    reuse: Path | None = None
    retry_failed: bool = False
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        problems = engine_problems(self.engine, self.workers)
        if problems:
            raise ConfigError(problems)


def run(
    config: RunConfig,
    place: Place,
    progress: Progress | None = None,
    dataset: Dataset | None = None,
) -> dict[str, Any]:
    """Run, or go on running, and return the content of `result.json`.

    A finished run is not repeated: its result is returned as it is. A run that fails leaves its
    reason in `failure.json` and is not tried again unless `place.retry_failed`.
    """
    watch = progress or Progress()
    check_reuse(place.reuse)
    given = None if place.out is None else RunFolder(place.out)
    if given is not None:
        check_folder(given, config, resume=place.resume, retry_failed=place.retry_failed)
        if given.is_finished:
            return _finished(given, watch)
    experiment = build_experiment(
        config, dataset, place.data_dirs, place.allow_download, watch.feature, watch.download
    )
    if given is None or not given.is_started:
        experiment.algorithm.init(_env(experiment))  # misfits show before anything is written
    folder = given or RunFolder(make_new_folder(RUNS, config))
    folder.create()
    with folder.lock():
        # again: now nobody else can write
        check_folder(folder, config, resume=place.resume, retry_failed=place.retry_failed)
        if folder.is_finished:
            return _finished(folder, watch)
        if not folder.is_started:
            start = partition_record(experiment), provenance_record(experiment)
            folder.write_start(config.plain(), *start)
        (folder.path / FAILURE).unlink(missing_ok=True)
        try:
            how = place.engine, place.workers, place.reuse, place.patience
            with open_federation(experiment, *how) as federation:
                return _run(folder, experiment, federation, place.engine, watch)
        except NO_FAILURES:
            raise
        except Exception as error:
            folder.write_json(FAILURE, failure_record(config, error))
            raise


def failure_record(config: RunConfig, error: Exception) -> dict[str, Any]:
    """The content of `failure.json`; what fedcord did not raise on purpose leaves its trace."""
    expected = isinstance(error, FedcordError)
    return {
        "algorithm": config.algorithm,
        "seed": config.seed,
        "error": type(error).__name__,
        "message": str(error),
        **({} if expected else {"traceback": traceback.format_exception(error)}),
    }


def _finished(folder: RunFolder, watch: Progress) -> dict[str, Any]:
    if not folder.check():
        watch.note(_unverified(folder))
    return folder.read_json(RESULT)


def _unverified(folder: RunFolder) -> str:
    return (
        f"'{folder.path}' is of a version that wrote no checksums; its files are taken as they are."
    )


def _env(experiment: Experiment) -> Env:
    """The server's place before the first round."""
    assert experiment.config.rounds is not None
    return Env(experiment.task, experiment.config.seed, num_rounds=experiment.config.rounds)


def _run(
    folder: RunFolder,
    experiment: Experiment,
    federation: Federation,
    engine: str,
    watch: Progress,
) -> dict[str, Any]:
    config, algorithm = experiment.config, experiment.algorithm
    env = _env(experiment)
    saved = _restore(folder, experiment, watch)
    state = algorithm.init(env) if saved is None else saved.state
    news: list[str] = []
    if saved is not None:
        federation.restore_memory(saved.memories, saved.state.round)
        news = _news(folder, watch)
    folder.rewind_metrics(state.round, "" if saved is None else saved.metrics)
    eligible = [k for k, member in sorted(federation.members.items()) if member.train > 0]
    count = max(1, math.floor(config.participation * len(eligible) + 0.5))
    if config.secure is not None and count < LEAST_SITES:
        raise ConfigError(
            f"secure = {config.secure:g} with {count} client in a round: its sum would be that "
            f"client's update; take at least {LEAST_SITES} clients, or leave --secure out."
        )
    schedule = Schedule(
        env.num_rounds,
        lambda round_: sample_clients(config.seed, exchange_at(algorithm, round_), eligible, count),
        config.evaluate_every,
        config.threads,
        config.secure,
    )
    watch.started(experiment, state.round)
    saved_at = time.monotonic()

    def on_round(state: ServerState, record: RoundRecord) -> None:
        nonlocal saved_at
        # a run costs what its clients' work cost, also where it was done before
        record = replace(record, seconds=record.seconds + record.saved_seconds)
        is_due = time.monotonic() - saved_at >= CHECKPOINT_SECONDS or state.round == config.rounds
        told = replace(record, notes=(*news, *record.notes))
        news.clear()
        folder.append_metrics(round_record(told, experiment), to_disk=is_due)
        if is_due:
            checkpoint = Checkpoint(state, federation.gather_memory(), folder.metrics_hash())
            save_checkpoint(folder.checkpoints, checkpoint, config.hash)
            saved_at = time.monotonic()
        watch.round(record)

    state = run_rounds(
        algorithm,
        federation,
        env,
        state,
        schedule,
        on_round,
        lambda client: watch.client(federation.members[client].train),
    )
    local = finish_clients(algorithm, federation, state, config.seed, eligible, config.threads)
    for_selection = Evaluation()
    if config.validation > 0:
        for_selection = validate_clients(federation, state, config.seed, eligible, config.threads)
    after, kept = federation.take_traffic(), federation.gather_memory()
    if algorithm.traits.personalizes:
        save_personal(folder.path, kept, config.hash)
    clients = clients_record(local, for_selection, experiment.partition.num_clients)
    final = Checkpoint(state, kept).hash
    origin, metrics = folder.read_json(PROVENANCE), folder.read_metrics()
    folder.write_result(
        result_record(experiment, origin, metrics, after, clients, final, engine, folder.path)
    )
    return folder.read_json(RESULT)


def _restore(folder: RunFolder, experiment: Experiment, watch: Progress) -> Checkpoint | None:
    """The newest state of an unfinished run, once its folder is what the run has left."""
    folder.remove_leftovers()
    folder.checkpoints.mkdir(exist_ok=True)
    if not folder.check():
        watch.note(_unverified(folder))
    origin = folder.read_json(PROVENANCE)
    if origin.get("forgotten"):
        raise CheckpointError(
            f"'{folder.path}' holds a model that clients were taken out of, which cannot be "
            "trained on; delete it and forget again from the run it was made of."
        )
    saved = load_newest(folder.checkpoints, experiment.config.hash)
    if saved is not None and origin.get("data_hash") != experiment.data_hash:
        raise CheckpointError(
            f"the data is not what the run in '{folder.path}' began with; restore that data, or "
            "start a new run."
        )
    remove_old(folder.checkpoints)
    return saved


def _news(folder: RunFolder, watch: Progress) -> list[str]:
    """What has changed since the run began, told now and with the next round."""
    changes = changes_since(folder.read_json(PROVENANCE))
    if not changes:
        return []
    text = f"resumed with other versions, bits may differ: {', '.join(changes)}"
    watch.note(text)
    return [text]
