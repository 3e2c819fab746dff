"""Runs that are made of a finished one without training it again: clients leave, or join late.

What both need: the finished run, its last round once more, everything measured anew, and a folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedcord.algorithms.analytic.ledger import ledger_rows
from fedcord.core.contract import ClientId, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.passes import Passes
from fedcord.engine.federation import Federation
from fedcord.engine.requests import Reply, Request, Verb
from fedcord.engine.rounds import evaluate_model
from fedcord.experiment.build import Experiment
from fedcord.experiment.ending import end_with_clients
from fedcord.experiment.finished_run import final_checkpoint
from fedcord.experiment.measured import detail_of_result, measured_record
from fedcord.experiment.records import evaluation_record
from fedcord.metrics.registry import DEFAULT
from fedcord.store.checkpoint import Checkpoint, save_checkpoint, save_personal
from fedcord.store.checksums import PROVENANCE, RESULT
from fedcord.store.run_folder import PERSONAL, RunFolder

FORGOTTEN, JOINED = "forgotten", "joined"
"""Marks of runs that were made of others, in result and provenance: which clients."""
COSTS = ("round", "clients", "bytes_up", "bytes_down", "seconds", "refused")
"""What a round's line keeps; the rest was about models that hold the client."""


@dataclass(frozen=True)
class SourceRun:
    """What a finished run consists of, the one that was or the one that is made of it."""

    checkpoint: Checkpoint
    settings: dict[str, Any]
    provenance: dict[str, Any]
    metrics: list[dict[str, Any]]
    result: dict[str, Any]

    @staticmethod
    def read(folder: RunFolder, experiment: Experiment, is_verified: bool) -> SourceRun:
        """What a folder holds, if it is of this experiment."""
        provenance = folder.read_json(PROVENANCE)
        if provenance.get("data_hash") != experiment.data_hash:
            raise CheckpointError(
                f"the data is not what the run in '{folder.path}' was made with; restore that data."
            )
        result = folder.read_json(RESULT)
        saved = final_checkpoint(folder, experiment.config, result, is_verified)
        return SourceRun(saved, folder.read_config(), provenance, folder.read_metrics(), result)


def solved_again(experiment: Experiment, people: Federation, state: ServerState) -> ServerState:
    """The last round anew with everyone who is in the sums, from what they are sent."""
    env = last_round(experiment, state)
    replies = people.ask(
        asking("update", state, env), sorted(ledger_rows(state.private)), "training"
    )
    updates = (
        (reply.client, reply.update(people.said(reply.client)))
        for reply in replies
        if isinstance(reply, Reply) and reply.client is not None
    )
    before = ServerState(state.shared, round=env.round)
    return experiment.algorithm.aggregate(before, updates, env)


def asking(verb: Verb, state: ServerState, at: Env) -> Request:
    """What clients are sent in that round."""
    return Request(verb, state.shared, at.round, at.num_rounds, at.seed, step=at.round)


def last_round(experiment: Experiment, state: ServerState) -> Env:
    """The round whose messages were added up."""
    return Env(
        experiment.task,
        experiment.config.seed,
        state.round - 1,
        state.round,
        names=experiment.population.names,
    )


def evaluated(
    experiment: Experiment,
    people: Federation,
    source: SourceRun,
    state: ServerState,
    marks: Mapping[str, Any],
    without: Sequence[ClientId] = (),
) -> tuple[SourceRun, Mapping[ClientId, Passes]]:
    """Everything the run has said about its model, said about the new one; costs stay as they were.

    Args:
        experiment: the run's, with everybody who is in the new one.
        people: who keep nothing yet.
        source: the run.
        state: of the new one.
        marks: what result and provenance say of how it was made.
        without: clients that are there and not asked.

    Returns:
        The new run, and what making their own models took clients.
    """
    config, algorithm = experiment.config, experiment.algorithm
    test = Request("evaluate", state.model, state.round - 1, state.round, config.seed, state.round)
    metric, names = str(source.result.get("metric", DEFAULT)), experiment.holdings.class_names
    in_full = detail_of_result(metric, len(names))
    sums, _ = evaluate_model(algorithm, people, test, in_full, without=without)
    tested = evaluation_record(sums, None, experiment.holdings)
    members = sorted(people.members.items())
    rest = [k for k, member in members if member.train > 0 and k not in without]
    # personal models are made anew: the old ones hold what others had learnt from the client
    ended = end_with_clients(experiment.plan, people, state, rest, in_full)
    clients = ended.record(len(members), {})
    checkpoint = Checkpoint(state, people.gather_memory())
    result = {
        **source.result,
        **tested,
        **clients,
        **measured_record(metric, sums, clients["client_metrics"], names),
        "state_hash": checkpoint.hash,
        **marks,
    }
    costs = [{k: line[k] for k in COSTS if k in line} for line in source.metrics]
    costs[-1] |= tested
    provenance = {**source.provenance, **marks}
    return SourceRun(checkpoint, source.settings, provenance, costs, result), ended.took


def make_run(
    target: RunFolder,
    experiment: Experiment,
    new: SourceRun,
    partition: Mapping[str, Any] | None = None,
) -> None:
    """A new run folder; what an interrupted attempt has left of it is cleared first."""
    _check_free(target)
    target.create()
    with target.lock():
        _check_free(target)
        target.clear()
        write_run(target, experiment, new, partition)


def _check_free(target: RunFolder) -> None:
    if target.is_started or target.strangers():
        raise ConfigError(
            f"'{target.path}' is there already; delete it, or choose another folder with --out."
        )


def write_run(
    folder: RunFolder,
    experiment: Experiment,
    new: SourceRun,
    partition: Mapping[str, Any] | None = None,
) -> None:
    """All files of a run that was made; who holds what is as in the experiment, unless told."""
    config_hash = experiment.config.hash
    folder.remove_leftovers()
    folder.checkpoints.mkdir(exist_ok=True)
    server = Checkpoint(new.checkpoint.state, {})
    save_checkpoint(folder.checkpoints, server, config_hash, keep=1)
    if experiment.algorithm.traits.personalizes:
        save_personal(folder.path, new.checkpoint.memories, config_hash)
    else:
        (folder.path / PERSONAL).unlink(missing_ok=True)
    record = partition or experiment.holdings.record()
    result = {**new.result, "run_dir": str(folder.path)}
    folder.write_all(new.settings, record, new.provenance, new.metrics, result)
