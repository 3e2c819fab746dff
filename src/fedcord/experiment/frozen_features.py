"""Where the network is frozen, examples become its features before the run begins.

The features of an example never change, so clients are given them instead of the example, and the
network becomes a linear layer on what it is given. Nothing else changes: features have the bits the
network would have computed, whoever holds the example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.analytic.features import network_features
from fedcord.core.contract import Algorithm
from fedcord.core.device import CPU
from fedcord.core.examples import Examples
from fedcord.core.task import Task
from fedcord.engine.population import Population
from fedcord.engine.threads import torch_threads
from fedcord.experiment.feature_store import FeatureStore, OnExample, feature_folder
from fedcord.models.frozen import FrozenNetwork


def is_applicable(algorithm: Algorithm, task: Task) -> bool:
    """Whether the method would see no difference, and there is something to gain."""
    if not algorithm.traits.looks_through_network or len(task.networks) != 1:
        return False
    network = task.scratch_network()
    return isinstance(network, FrozenNetwork) and not network.is_identity


def feature_values(task: Task, threads: int) -> dict[str, Any]:
    """In what a task that is given features differs from `task`, as plain values."""
    network, identity = _network(task, threads)
    return {
        "kind": "vector",
        "input_shape": [network.feature_dim],
        "mean": [],
        "std": [],
        "models": [f"frozen:pixels,of={identity[:16]}"],
    }


def as_features(
    population: Population,
    task: Task,
    threads: int,
    data_dirs: Sequence[Path] | None,
    on_example: OnExample,
) -> tuple[Population, Path | None]:
    """The same people with features for inputs, and the folder that keeps features, if any.

    Args:
        population: examples as stored.
        task: with one frozen network.
        threads: to compute with; another number could change bits, and has its own store.
        data_dirs: the data folders, one of which keeps the features.
        on_example: told about progress.
    """
    network, identity = _network(task, threads)

    def compute(stored: Tensor) -> Tensor:
        return network_features(network, task.prepare(stored).to(task.device))

    store = FeatureStore(feature_folder(identity, data_dirs), network.feature_dim, compute)
    everything = torch.cat([population.inputs, population.test.inputs])
    with torch_threads(threads):
        features = store.features(everything, on_example)
    train, test = features.split([len(population.inputs), len(population.test)])
    people = dataclasses.replace(
        population, inputs=train, test=Examples(test, population.test.labels)
    )
    is_kept = store.folder is not None and store.folder.exists()
    return people, store.folder if is_kept else None


def _network(task: Task, threads: int) -> tuple[FrozenNetwork, str]:
    """The frozen network and what it is recognised by."""
    network = task.scratch_network()
    assert isinstance(network, FrozenNetwork)
    place = "" if task.device.type == CPU else f"|{task.device.type}"
    how = f"{task.prepare}|{task.input_shape}|{threads} threads{place}"
    return network, network.identity(how)
