"""Exact unlearning of one client in a finished run, with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fedcord.algorithms.analytic.ledger import LEDGER
from fedcord.algorithms.analytic.membership import HoldsSums, forget, model_difference
from fedcord.core.contract import Algorithm, ClientId, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.tensors import Tensors
from fedcord.engine.evaluation import evaluate
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.load import load_config
from fedcord.store.checkpoint import Checkpoint, load_newest, save_checkpoint
from fedcord.store.run_folder import RunFolder


@runtime_checkable
class UsesClientsEncoders(Protocol):
    """A method whose model holds encoders that single clients trained."""

    def encoders_of(self, shared: Tensors) -> list[ClientId]:
        """Whose."""
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
    """

    client: ClientId
    difference: float
    accuracy_before: float
    accuracy_after: float
    encoder: str = "none"


def forget_client(
    run: Path,
    client: ClientId,
    data_dirs: Sequence[Path] | None = None,
    drop_encoder: bool = False,
) -> Forgotten:
    """Rewrite the model of a finished run as if `client` had never been there.

    The client's message is made again from its data, subtracted, and the model solved anew. An
    encoder it trained stays unless it is dropped. The run's checkpoint and result are replaced only
    after everything has worked.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(f"'{run}' holds no finished run; finish it with --resume first.")
    settings = folder.read_config()
    config = load_config(settings)
    experiment = build_experiment(config, data_dirs=data_dirs)
    algorithm = experiment.algorithm
    if not isinstance(algorithm, HoldsSums):
        raise ConfigError(
            f"{config.algorithm} does not keep sums, so nobody can be taken out exactly; train "
            "again without the client, or use an additive method such as afl."
        )
    result: dict[str, Any] = folder.read_json("result.json")
    gone: list[ClientId] = result.get("forgotten", [])
    with folder.lock(), torch_threads(config.threads):
        saved = load_newest(folder.checkpoints, config.hash)
        if saved is None:
            raise CheckpointError(f"'{run}' has no checkpoint; run it again.")
        if not 0 <= client < experiment.population.num_clients:
            raise ConfigError(
                f"client {client} does not exist; this run has clients 0 to "
                f"{experiment.population.num_clients - 1}."
            )
        assert config.rounds is not None
        # the last round is the one whose messages were added up
        env = Env(experiment.task, config.seed, config.rounds - 1, config.rounds)
        encoder = _encoder(algorithm, saved.state, client, drop_encoder)
        after = saved.state
        if not (drop_encoder and client in gone):  # an encoder may be dropped later than the sums
            after = _without(algorithm, after, client, experiment, env)
        if drop_encoder and isinstance(algorithm, UsesClientsEncoders):
            after = algorithm.drop_encoder(after, client, env)
        proof = _solved_again(algorithm, after, experiment, env)
        outcome = Forgotten(
            client,
            model_difference(after, proof),
            _accuracy(experiment, saved.state, env),
            _accuracy(experiment, after, env),
            encoder,
        )
        checkpoint = Checkpoint(after, {})  # personal models would still hold the client's data
        save_checkpoint(folder.checkpoints, checkpoint, config.hash)
        changed = {"accuracy": outcome.accuracy_after, "state_hash": checkpoint.hash}
        everyone = gone if client in gone else [*gone, client]
        folder.write_json("result.json", {**result, **changed, "forgotten": everyone})
    return outcome


def _encoder(algorithm: Any, state: ServerState, client: ClientId, drop: bool) -> str:
    """What becomes of the client's encoder."""
    uses = isinstance(algorithm, UsesClientsEncoders)
    if drop and not uses:
        raise ConfigError(
            f"--drop-encoder: {type(algorithm).__name__} uses no encoder trained by a client; "
            "leave it out."
        )
    if drop:
        return "dropped"
    return "kept" if uses and client in algorithm.encoders_of(state.shared) else "none"


def _without(
    algorithm: Any, state: ServerState, client: ClientId, experiment: Experiment, env: Env
) -> ServerState:
    data = experiment.population.client(client)
    update = algorithm.client_update(state.shared, {}, data, env.at(client)).update
    return forget(algorithm, state, client, update, env)


def _solved_again(
    algorithm: Algorithm, state: ServerState, experiment: Experiment, env: Env
) -> ServerState:
    """The last round anew with everyone who is in the sums, from what they are sent."""
    people = experiment.population
    updates = (
        (k, algorithm.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in state.private[f"{LEDGER}.client"].tolist()
    )
    return algorithm.aggregate(ServerState(state.shared, round=env.round), updates, env)


def _accuracy(experiment: Experiment, state: ServerState, env: Env) -> float:
    test = experiment.population.test
    return evaluate(experiment.algorithm, state.model, {}, test, env).accuracy
