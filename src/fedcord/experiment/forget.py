"""Exact unlearning of one client in a finished run, with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.algorithms.analytic.membership import HoldsSums, forget, model_difference
from fedcord.core.contract import Additive, Algorithm, ClientId, Env, ServerState
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.engine.evaluation import evaluate
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.load import load_config
from fedcord.store.checkpoint import Checkpoint, load_newest, save_checkpoint
from fedcord.store.run_folder import RunFolder


@dataclass(frozen=True)
class Forgotten:
    """What forgetting did.

    Attributes:
        client: who is no longer in the model.
        difference: largest relative difference between the new model and training without the
            client from the start; the proof.
        accuracy_before: of the model on the server's test set, with the client.
        accuracy_after: without it.
    """

    client: ClientId
    difference: float
    accuracy_before: float
    accuracy_after: float


def forget_client(
    run: Path, client: ClientId, data_dirs: Sequence[Path] | None = None
) -> Forgotten:
    """Rewrite the model of a finished run as if `client` had never been there.

    The client's message is made again from its data, subtracted, and the model solved anew. The
    run's checkpoint and result are replaced only after everything has worked.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(f"'{run}' holds no finished run; finish it with --resume first.")
    settings = folder.read_config()
    config = load_config(settings)
    experiment = build_experiment(config, data_dirs=data_dirs)
    algorithm = experiment.algorithm
    if not (isinstance(algorithm, Additive) and algorithm.is_additive):
        raise ConfigError(
            f"{config.algorithm} does not keep sums, so nobody can be taken out exactly; train "
            "again without the client, or use an additive method such as afl."
        )
    result: dict[str, Any] = folder.read_json("result.json")
    gone = [*result.get("forgotten", []), client]
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
        env = Env(experiment.task, config.seed, 0, config.rounds)
        after = _without(algorithm, saved.state, client, experiment, env)
        proof = _trained_without(algorithm, experiment, env, gone)
        outcome = Forgotten(
            client,
            model_difference(after, proof),
            _accuracy(experiment, saved.state, env),
            _accuracy(experiment, after, env),
        )
        checkpoint = Checkpoint(after, {})  # personal models would still hold the client's data
        save_checkpoint(folder.checkpoints, checkpoint, config.hash)
        changed = {"accuracy": outcome.accuracy_after, "state_hash": checkpoint.hash}
        folder.write_json("result.json", {**result, **changed, "forgotten": gone})
    return outcome


def _without(
    algorithm: Any, state: ServerState, client: ClientId, experiment: Experiment, env: Env
) -> ServerState:
    holder: HoldsSums = algorithm
    data = experiment.population.client(client)
    update = algorithm.client_update(state.shared, {}, data, env.at(client)).update
    return forget(holder, state, client, update, env)


def _trained_without(
    algorithm: Algorithm, experiment: Experiment, env: Env, gone: Sequence[ClientId]
) -> ServerState:
    """One-round training from the start with everyone who is left."""
    start = algorithm.init(env)
    sizes = experiment.population.train_sizes
    left = [k for k, size in enumerate(sizes) if size > 0 and k not in gone]
    updates = (
        (
            k,
            algorithm.client_update(
                start.shared, {}, experiment.population.client(k), env.at(k)
            ).update,
        )
        for k in left
    )
    return algorithm.aggregate(start, updates, env)


def _accuracy(experiment: Experiment, state: ServerState, env: Env) -> float:
    test = experiment.population.test
    return evaluate(experiment.algorithm, state.model, {}, test, env).accuracy
