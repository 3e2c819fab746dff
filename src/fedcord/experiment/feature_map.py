"""What the model of a finished run makes of test examples inside, drawn on a plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedcord.core.contract import ClientId, Env
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.names import client_said, clients_listed
from fedcord.core.tensors import Tensors
from fedcord.engine.threads import torch_threads
from fedcord.experiment.build import Experiment, build_experiment
from fedcord.experiment.load import load_config
from fedcord.report.feature_map import Floats, Method, feature_map_figure
from fedcord.store.checkpoint import Checkpoint, load_final
from fedcord.store.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 1000
"""Test examples drawn; more would hide each other."""


def draw_feature_map(
    run: Path,
    method: Method = "pca",
    client: ClientId | None = None,
    data_dirs: Sequence[Path] | None = None,
) -> Figure:
    """Features of the run's final model on test examples, and its prototypes.

    A method without prototypes gets the mean features of classes in their place.

    Args:
        run: folder of a finished run.
        method: how features come to a plane, as in `feature_map_figure`.
        client: whose own model; by default the common one, or the first client's where there is
            none.
        data_dirs: where data lies.
    """
    folder = RunFolder(run)
    if not folder.is_finished:
        raise CheckpointError(
            f"'{run}' holds no finished run; name the folder of one run, or finish it with "
            "--resume first."
        )
    folder.check()
    config = load_config(folder.read_config())
    experiment = build_experiment(config, data_dirs=data_dirs)
    algorithm, task = experiment.algorithm, experiment.task
    saved = load_final(run, config.hash)
    if saved is None:
        raise CheckpointError(f"'{run}' has no checkpoint; run it again.")
    memory, at = _whose(experiment, saved, client)
    test = experiment.population.test
    if len(test) == 0:
        raise ConfigError(
            f"'{run}' has no common test set, whose features would be drawn; its clients test on "
            "their own parts."
        )
    # evenly spaced: test sets are often sorted by class, and nothing here should be random
    places = torch.linspace(0, len(test) - 1, min(MOST, len(test))).long()
    with torch_threads(config.threads):
        env = Env(task, config.seed, max(saved.state.round - 1, 0), saved.state.round).at(at)
        inputs = task.prepare(test.inputs[places]).to(task.device)
        look = algorithm.predictor(saved.state.model, memory, env).features
        if look is None:
            raise ConfigError(
                f"{config.algorithm} has no single network whose features could be drawn; methods "
                "that average models or exchange prototypes have."
            )
        view = look(inputs)
        common = None
        if client is not None and not algorithm.traits.keeps_own_models:
            common = algorithm.predictor(saved.state.model, {}, env).features
        if common is not None and torch.equal(common(inputs).features, view.features):
            raise ConfigError(
                f"{client_said(at, experiment.population.names)}: in this run of "
                f"{config.algorithm} its features are those of the model that all share; leave "
                "--client out."
            )
    features, labels = view.features.double().cpu().numpy(), test.labels[places].numpy()
    names = experiment.dataset.class_names
    held = view.prototypes
    if held is None:
        stars, what = _class_means(features, labels, len(names)), "mean features of classes"
    else:
        stars, what = held.double().cpu().numpy(), "prototypes"
    return feature_map_figure(features, labels, stars, names, method, what)


def _whose(
    experiment: Experiment, saved: Checkpoint, client: ClientId | None
) -> tuple[Tensors, ClientId]:
    """The memory to use and the client it belongs to; the server has none and is nobody's."""
    people = experiment.population
    names = people.names
    if not experiment.algorithm.traits.keeps_own_models:
        if client is not None and client not in people.clients:
            raise ConfigError(
                f"{client_said(client, names)} is not in this run; its clients are "
                f"{clients_listed(list(people.clients), names)}."
            )
        return ({}, 0) if client is None else (saved.memories.get(client, {}), client)
    with_model = sorted(saved.memories)
    if not with_model:
        raise CheckpointError("no client of this run has trained a model; run it with more rounds.")
    chosen = with_model[0] if client is None else client
    if chosen not in saved.memories:
        raise ConfigError(
            f"{client_said(chosen, names)} has no model in this run; clients "
            f"{clients_listed(with_model, names)} have."
        )
    return saved.memories[chosen], chosen


def _class_means(features: Floats, labels: np.ndarray, num_classes: int) -> Floats:
    """[C, 1, D], NaN for classes without examples."""
    means = np.full((num_classes, 1, features.shape[1]), np.nan)
    for label in np.unique(labels):
        means[label] = features[labels == label].mean(axis=0)
    return means
