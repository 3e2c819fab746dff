"""Exact unlearning of one client of a finished run, with its proof."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from fedcord.algorithms.analytic.ledger import ledger_rows
from fedcord.algorithms.analytic.membership import HoldsSums, forget, model_difference
from fedcord.core.contract import Algorithm, ClientId, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.names import client_said
from fedcord.core.tensors import Tensors
from fedcord.engine.federation import Federation
from fedcord.engine.requests import Reply, Request, Verb
from fedcord.engine.reuse import work_of
from fedcord.engine.rounds import evaluate_model
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.ending import end_with_clients
from fedcord.experiment.engines import open_federation
from fedcord.experiment.load import load_config
from fedcord.experiment.measured import detail_of_result, measured_record
from fedcord.experiment.records import (
    client_names,
    evaluation_record,
)
from fedcord.metrics.registry import DEFAULT
from fedcord.store.checkpoint import Checkpoint, load_final, save_checkpoint, save_personal
from fedcord.store.checksums import FORGETTING, PARTITION, PROVENANCE, RESULT
from fedcord.store.run_folder import PERSONAL, RunFolder

COSTS = ("round", "clients", "bytes_up", "bytes_down", "seconds", "refused")
"""What a round's line keeps; the rest was about models that hold the client."""


class HoldsEncoders(Protocol):
    """The verbs of `Traits.holds_encoders`."""

    def encoders_of(self, shared: Tensors) -> list[ClientId]:
        """Whose encoders are in the model."""
        ...

    def drop_encoder(self, state: ServerState, client: ClientId, env: Env) -> ServerState:
        """The finished state as if this client's encoder had not been there."""
        ...


@dataclass(frozen=True)
class Forgotten:
    """What forgetting did.

    Attributes:
        client: who is no longer in the model.
        difference: largest relative difference between the new model and the last round done anew
            by everybody but the client; the proof.
        accuracy_before: of the model on the server's test set, with the client.
        accuracy_after: without it.
        encoder: what became of an encoder the client had trained: `none` when there was none,
            `kept` or `dropped`.
        is_verified: whether the run's files could be compared with checksums.
        run_dir: folder of the model without the client.
        work: files of the client's work in the folder of `--reuse` that the run knew; deleted if
            the run itself was changed.
        stored_features: folder that keeps features of examples, the client's among them.
    """

    client: ClientId
    difference: float
    accuracy_before: float
    accuracy_after: float
    encoder: str
    is_verified: bool
    run_dir: str
    work: tuple[str, ...] = ()
    stored_features: str | None = None


def forget_client(
    run: Path,
    client: ClientId,
    data_dirs: Sequence[Path] | None = None,
    drop_encoder: bool = False,
    out: Path | None = None,
    in_place: bool = False,
) -> Forgotten:
    """Make the model of a finished run as if `client` had never been there.

    The client's message is made again from its data, subtracted, and the model solved anew and
    evaluated anew in every way; the others make their personal models again. An encoder the client
    trained stays unless it is dropped.

    Args:
        run: folder of a finished run.
        client: who is forgotten.
        data_dirs: where data lies.
        drop_encoder: also take out the encoder that the client trained.
        out: folder of the new run; by default beside `run`, which stays as it is.
        in_place: change `run` itself, and leave no file in it that holds what is forgotten.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(f"'{run}' holds no finished run; finish it with --resume first.")
    if in_place and out is not None:
        raise ConfigError("--in-place changes the run itself; leave --out out.")
    with folder.lock():
        begun = _begun(folder, client, drop_encoder, in_place)
        is_verified = begun is None and folder.check()
        experiment = build_experiment(load_config(folder.read_config()), data_dirs=data_dirs)
        algorithm = experiment.algorithm
        if experiment.config.secure is not None:
            raise ConfigError(
                f"nobody can be taken out of '{run}': its updates were masked, so that only their "
                "sum is known; train again without the client."
            )
        if not algorithm.traits.holds_sums:
            raise ConfigError(
                f"{experiment.config.algorithm} does not keep sums, so nobody can be taken out "
                "exactly; train again without the client, or use an additive method such as afl."
            )
        if not 0 <= client < experiment.population.num_clients:
            raise ConfigError(
                f"client {client} does not exist; this run has clients 0 to "
                f"{experiment.population.num_clients - 1}."
            )
        source = _Run.read(folder, experiment, is_verified)
        encoder = _encoder(algorithm, source.checkpoint.state, client, drop_encoder)
        plan = begun or _Plan.of(source.result, client, drop_encoder)
        with torch_threads(experiment.config.threads):
            is_again = begun is not None
            with open_federation(experiment) as people:
                after = _taken_out(experiment, people, source, plan, is_again=is_again)
                difference = model_difference(after, _solved_again(experiment, people, after))
            with open_federation(experiment) as people:  # who keeps nothing yet
                new = _evaluated(experiment, people, source, after, plan)
        target = folder if in_place else RunFolder(out or _beside(run, source.result, plan))
        if in_place:
            folder.write_json(FORGETTING, dataclasses.asdict(plan))
            _write(folder, experiment, new)
            for path in (work := _work(experiment, source, client)):
                path.unlink(missing_ok=True)
            (folder.path / FORGETTING).unlink()
        else:
            _make(target, experiment, new)
            work = _work(experiment, source, client)
    return Forgotten(
        client,
        difference,
        plan.accuracy_before,
        new.result["accuracy"],
        encoder,
        is_verified or begun is not None,
        str(target.path),
        tuple(map(str, work)),
        None if experiment.stored_features is None else str(experiment.stored_features),
    )


@dataclass(frozen=True)
class _Plan:
    """What is to be forgotten, written down before a run is changed so that it can be repeated."""

    client: ClientId
    drop_encoder: bool
    accuracy_before: float
    forgotten: list[ClientId]
    dropped_encoders: list[ClientId]

    @staticmethod
    def of(result: Mapping[str, Any], client: ClientId, drop_encoder: bool) -> _Plan:
        gone = {name: list(result.get(name, ())) for name in ("forgotten", "dropped_encoders")}
        if client not in gone["forgotten"]:
            gone["forgotten"].append(client)
        if drop_encoder:
            gone["dropped_encoders"].append(client)
        return _Plan(client, drop_encoder, result["accuracy"], **gone)

    def marks(self) -> dict[str, Any]:
        """What result and provenance say about it."""
        dropped = {"dropped_encoders": self.dropped_encoders} if self.dropped_encoders else {}
        return {"forgotten": self.forgotten, **dropped}


@dataclass(frozen=True)
class _Run:
    """What a finished run consists of."""

    checkpoint: Checkpoint
    settings: dict[str, Any]
    provenance: dict[str, Any]
    metrics: list[dict[str, Any]]
    result: dict[str, Any]

    @staticmethod
    def read(folder: RunFolder, experiment: Experiment, is_verified: bool) -> _Run:
        saved = load_final(folder.path, experiment.config.hash)
        if saved is None:
            raise CheckpointError(f"'{folder.path}' has no checkpoint; run it again.")
        provenance = folder.read_json(PROVENANCE)
        if provenance.get("data_hash") != experiment.data_hash:
            raise CheckpointError(
                f"the data is not what the run in '{folder.path}' was made with; restore that data."
            )
        result = folder.read_json(RESULT)
        if is_verified and saved.hash != result["state_hash"]:
            raise CheckpointError(
                f"the newest checkpoint in '{folder.path}' is not the state that its result is of; "
                "restore the folder from a copy, or delete it and run again."
            )
        return _Run(saved, folder.read_config(), provenance, folder.read_metrics(), result)


def _begun(folder: RunFolder, client: ClientId, drop_encoder: bool, in_place: bool) -> _Plan | None:
    """What was to be forgotten here when somebody was interrupted."""
    if not (folder.path / FORGETTING).exists():
        return None
    try:
        plan = _Plan(**folder.read_json(FORGETTING))
    except TypeError as error:
        raise CheckpointError(
            f"'{folder.path / FORGETTING}' does not say who was to be forgotten; restore the "
            "folder from a copy, or delete it and run again."
        ) from error
    if (plan.client, plan.drop_encoder) != (client, drop_encoder) or not in_place:
        flag = " --drop-encoder" if plan.drop_encoder else ""
        who = client_said(plan.client, client_names(folder.read_json(PARTITION)))
        raise CheckpointError(
            f"forgetting {who} was interrupted in '{folder.path}'; repeat it first: "
            f"fedcord forget {folder.path} --client {plan.client}{flag} --in-place"
        )
    return plan


def _taken_out(
    experiment: Experiment, people: Federation, source: _Run, plan: _Plan, *, is_again: bool
) -> ServerState:
    """The state without the client; what an interrupted attempt has done is not done twice."""
    algorithm = experiment.algorithm
    client, after = plan.client, source.checkpoint.state
    env = _last_round(experiment, after)
    is_gone = client in source.result.get("forgotten", ())
    # an encoder may be dropped later than the sums
    is_done = is_again or (plan.drop_encoder and is_gone)
    if client in ledger_rows(after.private) or not is_done:
        (reply,) = people.ask(_asking("forget", after, env), [client], "training")
        assert isinstance(reply, Reply)
        after = forget(
            cast(HoldsSums, algorithm), after, client, reply.update(people.said(client)), env
        )
    holder = cast(HoldsEncoders, algorithm)
    if plan.drop_encoder and (client in holder.encoders_of(after.shared) or not is_again):
        after = holder.drop_encoder(after, client, env)
    return after


def _solved_again(experiment: Experiment, people: Federation, state: ServerState) -> ServerState:
    """The last round anew with everyone who is in the sums, from what they are sent."""
    env = _last_round(experiment, state)
    replies = people.ask(
        _asking("update", state, env), sorted(ledger_rows(state.private)), "training"
    )
    updates = (
        (reply.client, reply.update(people.said(reply.client)))
        for reply in replies
        if isinstance(reply, Reply) and reply.client is not None
    )
    before = ServerState(state.shared, round=env.round)
    return experiment.algorithm.aggregate(before, updates, env)


def _asking(verb: Verb, state: ServerState, at: Env) -> Request:
    return Request(verb, state.shared, at.round, at.num_rounds, at.seed, step=at.round)


def _last_round(experiment: Experiment, state: ServerState) -> Env:
    """The round whose messages were added up."""
    return Env(
        experiment.task,
        experiment.config.seed,
        state.round - 1,
        state.round,
        names=experiment.population.names,
    )


def _evaluated(
    experiment: Experiment, people: Federation, source: _Run, state: ServerState, plan: _Plan
) -> _Run:
    """Everything the run has said about its model, said about the new one."""
    config, algorithm = experiment.config, experiment.algorithm
    test = Request("evaluate", state.model, state.round - 1, state.round, config.seed, state.round)
    metric, names = str(source.result.get("metric", DEFAULT)), experiment.holdings.class_names
    in_full = detail_of_result(metric, len(names))
    sums, _ = evaluate_model(algorithm, people, test, in_full, without=plan.forgotten)
    tested = evaluation_record(sums, None, experiment.holdings)
    members = sorted(people.members.items())
    rest = [k for k, member in members if member.train > 0 and k not in plan.forgotten]
    # personal models are made anew: the old ones hold what others had learnt from the client
    clients = end_with_clients(experiment.plan, people, state, rest, in_full).record(
        len(members), {}
    )
    checkpoint = Checkpoint(state, people.gather_memory())
    result = {
        **source.result,
        **tested,
        **clients,
        **measured_record(metric, sums, clients["client_metrics"], names),
        "state_hash": checkpoint.hash,
        **plan.marks(),
    }
    costs = [{k: line[k] for k in COSTS if k in line} for line in source.metrics]
    costs[-1] |= tested
    provenance = {**source.provenance, **plan.marks()}
    return _Run(checkpoint, source.settings, provenance, costs, result)


def _work(experiment: Experiment, source: _Run, client: ClientId) -> list[Path]:
    """What lies of the client's work outside the run, as far as the run knew."""
    reuse = source.provenance.get("reuse")
    if not isinstance(reuse, str) or not Path(reuse).is_dir():
        return []
    return work_of(Path(reuse), experiment.population.client(client))


def _beside(run: Path, result: Mapping[str, Any], plan: _Plan) -> Path:
    """The folder of the new run: the old name, and who is not in it."""
    name = run.resolve().name
    if result.get("forgotten"):
        name = name.partition("-without-")[0]
    name += "-without-" + "-".join(map(str, plan.forgotten))
    if plan.dropped_encoders:
        name += "-encoder-" + "-".join(map(str, plan.dropped_encoders))
    return run.resolve().parent / name if run.name in ("", "..") else run.parent / name


def _make(target: RunFolder, experiment: Experiment, new: _Run) -> None:
    """A new run folder; what an interrupted attempt has left of it is cleared first."""
    _check_free(target)
    target.create()
    with target.lock():
        _check_free(target)
        target.clear()
        _write(target, experiment, new)


def _check_free(target: RunFolder) -> None:
    if target.is_started or target.strangers():
        raise ConfigError(
            f"'{target.path}' is there already; delete it, or choose another folder with --out."
        )


def _write(folder: RunFolder, experiment: Experiment, new: _Run) -> None:
    config_hash = experiment.config.hash
    folder.remove_leftovers()
    folder.checkpoints.mkdir(exist_ok=True)
    server = Checkpoint(new.checkpoint.state, {})
    save_checkpoint(folder.checkpoints, server, config_hash, keep=1)
    if experiment.algorithm.traits.personalizes:
        save_personal(folder.path, new.checkpoint.memories, config_hash)
    else:
        (folder.path / PERSONAL).unlink(missing_ok=True)
    partition = experiment.holdings.record()
    result = {**new.result, "run_dir": str(folder.path)}
    folder.write_all(new.settings, partition, new.provenance, new.metrics, result)


def _encoder(algorithm: Algorithm, state: ServerState, client: ClientId, drop: bool) -> str:
    """What becomes of the client's encoder."""
    if drop and not algorithm.traits.holds_encoders:
        raise ConfigError(
            f"--drop-encoder: {type(algorithm).__name__} uses no encoder trained by a client; "
            "leave it out."
        )
    if drop:
        return "dropped"
    if not algorithm.traits.holds_encoders:
        return "none"
    holders = cast(HoldsEncoders, algorithm).encoders_of(state.shared)
    return "kept" if client in holders else "none"
