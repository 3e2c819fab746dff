"""One run, from configuration to result, safe against crashes."""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcord.core.contract import ClientId, Env, ServerState
from fedcord.core.device import described
from fedcord.core.errors import CheckpointError, ConfigError, DataError, FedcordError
from fedcord.core.tensors import Tensors
from fedcord.data.dataset import Dataset
from fedcord.engine.federation import Federation
from fedcord.engine.patience import Patience
from fedcord.engine.rounds import RoundRecord, Schedule, evaluate_again, run_rounds
from fedcord.engine.sampling import clients_of_round, least_in_a_round
from fedcord.experiment.build import Plan, build_experiment
from fedcord.experiment.config import RunConfig, engine_problems
from fedcord.experiment.deployment import RUN, holdings_of, open_sites, plan_for_sites, run_of
from fedcord.experiment.ending import ABSENT, awaited, end_with_clients, finish_awaited
from fedcord.experiment.engines import check_reuse, open_federation
from fedcord.experiment.finished_run import FinishedRun
from fedcord.experiment.folders import RUNS, check_folder, make_new_folder
from fedcord.experiment.holdings import Holdings
from fedcord.experiment.measured import detail_of_result, detail_of_rounds, measured_record
from fedcord.experiment.records import (
    cost_record,
    privacy_record,
    provenance_record,
    result_record,
    round_record,
)
from fedcord.experiment.start_from import FirstState, begin_with, first_state
from fedcord.experiment.survey import Sites
from fedcord.experiment.tracking import Mirror, mirror_of, tracker_problems
from fedcord.metrics.registry import DEFAULT, metric_problems
from fedcord.metrics.sums import Evaluation
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
from fedcord.store.run_folder import RunFolder

CHECKPOINT_SECONDS = 1.0
"""At most one checkpoint in this time, so that short rounds do not wait for the disk."""

NO_FAILURES = (ConfigError, DataError, CheckpointError, OSError)
"""What is wrong outside a run: put right, the same run goes on. Anything else fails it."""


@dataclass(frozen=True)
class Known:
    """What the server of a run knows: its plan, and who holds what."""

    plan: Plan
    holdings: Holdings

    @property
    def config(self) -> RunConfig:
        """The settings."""
        return self.plan.config

    def warnings(self) -> tuple[str, ...]:
        """What deserves a second look in the data's spread and the settings, in plain words."""
        return self.holdings.notes + self.plan.notes


@dataclass(frozen=True)
class Progress:
    """Callbacks for someone who watches; all optional.

    Attributes:
        started: (what is known, rounds already done) once everything is built.
        client: a client's answer arrived; its number of training examples.
        round: a round ended.
        feature: (done, to do) while a frozen network computes features that are not stored yet.
        download: (bytes held, bytes in all or None) while data is fetched.
        note: something worth knowing about a run that is gone on with.
    """

    started: Callable[[Known, int], None] = lambda known, done: None
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
        metric: what reports of the run are about; it is measured in every evaluated round.
        track: trackers that numbers are mirrored to, of `tracking.TRACKERS`.
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
    metric: str = DEFAULT
    track: Sequence[str] = ()

    def __post_init__(self) -> None:
        problems = engine_problems(self.engine, self.workers) + metric_problems(self.metric)
        problems += tracker_problems(self.track)
        if problems:
            raise ConfigError(problems)


def run(
    config: RunConfig,
    place: Place,
    progress: Progress | None = None,
    dataset: Dataset | None = None,
    sites: Sites | None = None,
    start: FinishedRun | None = None,
) -> dict[str, Any]:
    """Run, or go on running, and return the content of `result.json`.

    A finished run is not repeated: its result is returned as it is, once the models of sites that
    were absent at its end are made. A run that fails leaves its reason in `failure.json` and is not
    tried again unless `place.retry_failed`.

    Args:
        config: from `load_config`.
        place: where and how.
        progress: for someone who watches.
        dataset: the user's own data instead of the configured name, to be simulated with.
        sites: where the data lies, if not here; then nothing is simulated.
        start: the run whose state this one begins with, by the settings of `going_on`.
    """
    watch = progress or Progress()
    check_reuse(place.reuse)
    given = None if place.out is None else RunFolder(place.out)
    if given is not None:
        check_folder(given, config, resume=place.resume, retry_failed=place.retry_failed)
        if given.is_finished and (sites is None or not awaited(given)):
            return _finished(given, watch)
    begun = given if given is not None and given.is_started else None
    if config.start is not None and start is None and begun is None:
        raise ConfigError("start: name the run to begin with, by --from RUN.")
    if config.attack is not None and sites is not None:
        raise ConfigError(
            f"attack = '{config.attack}': attacks are simulated, and these clients are not; leave "
            "attack out."
        )
    identity: dict[str, Any] = {}
    if sites is None:
        experiment = build_experiment(
            config, dataset, place.data_dirs, place.allow_download, watch.feature, watch.download
        )
        plan, how = experiment.plan, (place.engine, place.workers, place.reuse, place.patience)
        opened = open_federation(experiment, *how)
    else:
        data_dirs = None if place.data_dirs is None else list(place.data_dirs)
        plan = plan_for_sites(config, sites, place.patience, begun, data_dirs)
        identity = {RUN: uuid.uuid4().hex if begun is None else run_of(begun)}
        opened = open_sites(plan, sites, identity[RUN], place.patience)
    if begun is None:
        plan.algorithm.init(_env(plan))  # misfits show before anything is written
    first = None
    if start is not None:
        data_hash = experiment.data_hash if sites is None else None
        first = first_state(config, plan.algorithm, start, _env(plan), data_hash)
        plan = replace(plan, notes=(*plan.notes, first.note))
        identity |= {"started_from": first.origin}
    folder = given or RunFolder(make_new_folder(RUNS, config))
    folder.create()
    with folder.lock():
        # again: now nobody else can write
        check_folder(folder, config, resume=place.resume, retry_failed=place.retry_failed)
        if folder.is_finished and (sites is None or not awaited(folder)):
            return _finished(folder, watch)

        def begin(holdings: Holdings) -> None:
            if not folder.is_started:
                shares = sites is None and plan.algorithm.traits.shares_work
                reuse = place.reuse if shares else None
                device = described(plan.task.device)
                origin = provenance_record(config, holdings, reuse, device) | identity
                folder.write_start(config.plain(), holdings.record(), origin)
            folder.check()  # before anything is written over what it may be wrong about
            folder.clear_failure()

        has_begun = False
        try:
            if sites is None:
                holdings = experiment.holdings
                begin(holdings)
            with opened as federation:
                if sites is not None:
                    holdings = holdings_of(federation, plan, begun)
                    begin(holdings)
                has_begun = True
                if folder.is_finished:
                    return finish_awaited(folder, plan, federation)
                engine = place.engine if sites is None else sites.name
                known = Known(plan, holdings)
                how_it_ran = engine, place.metric, watch, sites is None, first
                with mirror_of(folder, config, place.track, watch.note) as mirror:
                    return _run(folder, known, federation, *how_it_ran, mirror)
        except NO_FAILURES as error:
            if isinstance(error, ConfigError) and has_begun:  # the method's own, as it worked
                folder.write_failure(failure_record(config.algorithm, config.seed, error))
            raise
        except Exception as error:
            if folder.is_started:
                folder.write_failure(failure_record(config.algorithm, config.seed, error))
            raise


def failure_record(algorithm: str, seed: int, error: Exception) -> dict[str, Any]:
    """The content of `failure.json`; what fedcord did not raise on purpose leaves its trace."""
    expected = isinstance(error, FedcordError)
    return {
        "algorithm": algorithm,
        "seed": seed,
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


def _env(plan: Plan) -> Env:
    """The server's place before the first round."""
    assert plan.config.rounds is not None
    return Env(plan.task, plan.config.seed, num_rounds=plan.config.rounds)


def _run(
    folder: RunFolder,
    known: Known,
    federation: Federation,
    engine: str,
    metric: str,
    watch: Progress,
    is_simulated: bool,
    first: FirstState | None,
    mirror: Mirror,
) -> dict[str, Any]:
    config, algorithm = known.config, known.plan.algorithm
    in_full = detail_of_result(metric, known.plan.facts.num_classes)
    env = _env(known.plan)
    saved = _restore(folder, known, watch)
    if saved is None and config.start is not None:
        saved = begin_with(first, folder)
    state = algorithm.init(env) if saved is None else saved.state
    news = [] if saved is None else _news(folder, watch, described(known.plan.task.device))
    if saved is None:  # what follows from the seed everybody has
        federation.holders.note(state.shared, federation.members)
    else:
        federation.restore_memory(saved.memories, saved.state.round)
        federation.holders.restore(saved.holders)
    folder.rewind_metrics(state.round, "" if saved is None else saved.metrics)
    for line in folder.read_metrics():
        mirror.round(line)

    def eligible() -> list[ClientId]:
        return [k for k, member in sorted(federation.members.items()) if member.train > 0]

    def participants(round_: int) -> list[ClientId]:
        return clients_of_round(algorithm, config.participation, config.seed, round_, eligible())

    count = least_in_a_round(config.participation, env.num_rounds, len(eligible()))
    if config.secure is not None and count < LEAST_SITES:
        raise ConfigError(
            f"secure = {config.secure:g} with {count} client in a round: its sum would be that "
            f"client's update; take at least {LEAST_SITES} clients, or leave --secure out."
        )
    how = config.evaluate_every, config.threads, detail_of_rounds(metric), in_full, config.secure
    schedule = Schedule(env.num_rounds, participants, *how)
    watch.started(known, state.round)
    saved_at = time.monotonic()
    tested: Evaluation | None = None

    def on_round(state: ServerState, record: RoundRecord) -> None:
        nonlocal saved_at, tested
        tested = record.evaluation
        # a run costs what its clients' work cost, also where it was done before
        record = replace(record, seconds=record.seconds + record.saved_seconds)
        is_due = time.monotonic() - saved_at >= CHECKPOINT_SECONDS or state.round == config.rounds
        is_due |= not is_simulated  # sites keep the memory of two rounds, and no older state fits
        told = replace(record, notes=(*news, *record.notes))
        news.clear()
        line = round_record(told, known.holdings)
        folder.append_metrics(line, to_disk=is_due)
        mirror.round(line)
        if is_due:
            memories = federation.gather_memory() if is_simulated else {}
            holders = federation.holders.plain(state.model)
            checkpoint = Checkpoint(state, memories, folder.metrics_hash(), holders)
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
    missing = dict.fromkeys(
        set(range(known.holdings.num_clients)) - federation.members.keys(), ABSENT
    )
    if tested is None:  # a run that was stopped between its last round and its result
        tested = evaluate_again(algorithm, federation, state, config.seed, config.threads, in_full)
    ended = end_with_clients(known.plan, federation, state, eligible(), in_full)
    after, kept = federation.take_traffic(), dict[ClientId, Tensors]()
    if is_simulated or federation.gives_memory:
        kept = federation.gather_memory()
    if is_simulated and algorithm.traits.personalizes:
        save_personal(folder.path, kept, config.hash)
    final = Checkpoint(state, kept).hash
    origin, metrics = folder.read_json(PROVENANCE), folder.read_metrics()
    about = known.plan, known.holdings, origin, metrics, after
    clients = ended.record(known.holdings.num_clients, missing if not is_simulated else {})
    over = clients["client_metrics"]
    measured = clients | measured_record(metric, tested, over, known.holdings.class_names)
    sizes = [member.train for member in federation.members.values() if member.train > 0]
    measured |= privacy_record(algorithm, sizes, env.num_rounds)
    cost = cost_record(config, metrics, after, ended.delivery, ended.took)
    folder.write_result(result_record(*about, measured, final, engine, folder.path, cost))
    result = folder.read_json(RESULT)
    mirror.result(result)
    return result


def _restore(folder: RunFolder, known: Known, watch: Progress) -> Checkpoint | None:
    """The newest state of an unfinished run, once its folder is what the run has left."""
    folder.remove_leftovers()
    folder.checkpoints.mkdir(exist_ok=True)
    if not folder.check():
        watch.note(_unverified(folder))
    origin = folder.read_json(PROVENANCE)
    if origin.get("forgotten") or origin.get("joined"):
        raise CheckpointError(
            f"'{folder.path}' holds a model that clients were taken out of or joined later, which "
            "cannot be trained on; delete it and make it again of the run it was made of."
        )
    saved = load_newest(folder.checkpoints, known.config.hash)
    if saved is not None and origin.get("data_hash") != known.holdings.data_hash:
        raise CheckpointError(
            f"the data is not what the run in '{folder.path}' began with; restore that data, or "
            "start a new run."
        )
    remove_old(folder.checkpoints)
    return saved


def _news(folder: RunFolder, watch: Progress, device: str) -> list[str]:
    """What has changed since the run began, told now and with the next round."""
    changes = changes_since(folder.read_json(PROVENANCE), device)
    if not changes:
        return []
    text = f"resumed with other versions, bits may differ: {', '.join(changes)}"
    watch.note(text)
    return [text]
