"""Exact unlearning of one client of a finished run, with its proof."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from fedcord.algorithms.analytic.ledger import ledger_rows
from fedcord.algorithms.analytic.membership import (
    HoldsSums,
    forget,
    keeps_no_sums,
    model_difference,
    why_not_taken_out,
)
from fedcord.core.contract import Algorithm, ClientId, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.names import client_said
from fedcord.core.tensors import Tensors
from fedcord.engine.federation import Federation
from fedcord.engine.requests import Reply
from fedcord.engine.reuse import work_of
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.engines import open_federation
from fedcord.experiment.load import load_config
from fedcord.experiment.made_run import (
    JOINED,
    SourceRun,
    asking,
    evaluated,
    last_round,
    make_run,
    solved_again,
    write_run,
)
from fedcord.experiment.records import (
    client_names,
)
from fedcord.store.checksums import FORGETTING, PARTITION
from fedcord.store.run_folder import RunFolder


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
                f"{keeps_no_sums(experiment.config.algorithm, algorithm)}, so nobody can be taken "
                "out exactly; train again without the client, or use an additive method such as "
                "afl."
            )
        if not 0 <= client < experiment.population.num_clients:
            raise ConfigError(
                f"client {client} does not exist; this run has clients 0 to "
                f"{experiment.population.num_clients - 1}."
            )
        source = SourceRun.read(folder, experiment, is_verified)
        if source.result.get(JOINED):
            raise ConfigError(
                f"clients have joined '{run}' later; forget in the run it was made of, and let "
                "them join again."
            )
        encoder = _encoder(algorithm, source.checkpoint.state, client, drop_encoder)
        plan = begun or _Plan.of(source.result, client, drop_encoder)
        with torch_threads(experiment.config.threads):
            is_again = begun is not None
            with open_federation(experiment) as people:
                after = _taken_out(experiment, people, source, plan, is_again=is_again)
                difference = model_difference(after, solved_again(experiment, people, after))
            with open_federation(experiment) as people:  # who keeps nothing yet
                new, _ = evaluated(experiment, people, source, after, plan.marks(), plan.forgotten)
        target = folder if in_place else RunFolder(out or _beside(run, source.result, plan))
        if in_place:
            folder.write_json(FORGETTING, dataclasses.asdict(plan))
            write_run(folder, experiment, new)
            for path in (work := _work(experiment, source, client)):
                path.unlink(missing_ok=True)
            (folder.path / FORGETTING).unlink()
        else:
            make_run(target, experiment, new)
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
    experiment: Experiment, people: Federation, source: SourceRun, plan: _Plan, *, is_again: bool
) -> ServerState:
    """The state without the client; what an interrupted attempt has done is not done twice."""
    algorithm = experiment.algorithm
    client, after = plan.client, source.checkpoint.state
    env = last_round(experiment, after)
    is_gone = client in source.result.get("forgotten", ())
    # an encoder may be dropped later than the sums
    is_done = is_again or (plan.drop_encoder and is_gone)
    rows = ledger_rows(after.private)
    if client in rows or not is_done:
        if (why := why_not_taken_out(rows, client, env)) is not None:
            raise ConfigError(why)
        (reply,) = people.ask(asking("forget", after, env), [client], "training")
        assert isinstance(reply, Reply)
        after = forget(
            cast(HoldsSums, algorithm), after, client, reply.update(people.said(client)), env
        )
    holder = cast(HoldsEncoders, algorithm)
    if plan.drop_encoder and (client in holder.encoders_of(after.shared) or not is_again):
        after = holder.drop_encoder(after, client, env)
    return after


def _work(experiment: Experiment, source: SourceRun, client: ClientId) -> list[Path]:
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
