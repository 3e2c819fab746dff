"""From a configuration to the things that run: data, task, algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedcord.algorithms.registry import algorithm_class
from fedcord.core.contract import Algorithm, Review
from fedcord.core.declaration import check_declaration
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.examples import Examples
from fedcord.core.params import build
from fedcord.core.task import FixedNetwork, NetworkFactory, Task
from fedcord.core.tensors import hash_tensors
from fedcord.data.dataset import STANDARD, Dataset, Split
from fedcord.data.download import Progress as DownloadProgress
from fedcord.data.heterogeneity import measure_heterogeneity
from fedcord.data.holdout import split_client
from fedcord.data.partition import Partition
from fedcord.data.registry import load_dataset
from fedcord.data.standardise import standardisation
from fedcord.data.transforms import augmentations, prepare_fn
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.population import Population
from fedcord.experiment.config import RunConfig
from fedcord.experiment.feature_store import OnExample
from fedcord.experiment.frozen_features import as_features, is_applicable
from fedcord.experiment.masking import masking_review
from fedcord.experiment.partition import partition_of
from fedcord.models.registry import check_model, network_factory

TASK_FACTORY = "fedcord.experiment.build:task_from_values"


@dataclass(frozen=True)
class Experiment:
    """Everything a run needs, made from its configuration.

    `data_hash` is of the examples as they were dealt out, of the test part, and of the constants
    that a table is standardised by, before any frozen network looks at them: methods that are given
    features have the hash of those that are not. `notes` is what the algorithm says of its settings
    for this task.
    """

    config: RunConfig
    dataset: Dataset
    partition: Partition
    population: Population
    algorithm: Algorithm
    task: Task
    blueprint: Blueprint
    data_hash: str
    notes: tuple[str, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """What deserves a second look in the data's spread and the settings, in plain words."""
        dataset, partition = self.dataset, self.partition
        counts = partition.counts(dataset.train.labels, dataset.num_classes)
        spread = measure_heterogeneity(counts, partition.client_names, dataset.class_names)
        return dataset.notes + spread.warnings + self.notes


def build_experiment(
    config: RunConfig,
    dataset: Dataset | None = None,
    data_dirs: Sequence[Path] | None = None,
    allow_download: bool = False,
    on_feature: OnExample = lambda done, total: None,
    on_download: DownloadProgress | None = None,
) -> Experiment:
    """Load data, spread it over clients, and make task and algorithm.

    Args:
        config: from `load_config`.
        dataset: the user's own data instead of the configured name.
        data_dirs: where to look for data files.
        allow_download: whether missing data may be fetched from its official place.
        on_feature: (done, to do) while a frozen network computes features it has not yet stored.
        on_download: (bytes held, bytes in all or None) while data is fetched.
    """
    if dataset is None:
        dataset = load_dataset(
            config.dataset,
            data_dirs=data_dirs,
            allow_download=allow_download,
            progress=on_download,
        )
    problems = [
        problem
        for model in config.model
        for problem in check_model(
            model, kind=dataset.kind, input_shape=dataset.input_shape, data_dirs=data_dirs or ()
        )
    ]
    if problems:
        raise ConfigError(problems)
    partition = partition_of(config, dataset)
    algorithm: Algorithm = build(algorithm_class(config.algorithm), config.params)
    check_declaration(algorithm)
    population = arrange(dataset, partition, config)
    if len(population.test) == 0 and not any(population.sizes(k)[2] for k in population.clients):
        raise DataError(
            f"data set '{dataset.name}' has no test examples, and no client keeps any, so no "
            "accuracy could be measured; give it some, or let clients keep a share with --test 0.2."
        )
    values = task_values(dataset, config.model, data_dirs or ())
    identity = population.tensors()
    if dataset.kind == "vector" and dataset.scale == STANDARD:
        clients = map(population.client, range(population.num_clients))
        mean, std = standardisation([client.train.inputs.numpy() for client in clients])
        values |= {"mean": list(mean), "std": list(std)}
        # no setting names them, so a run must not go on with others
        identity |= {"standardisation": torch.tensor([mean, std], dtype=torch.float64)}
    task = task_from_values(values)
    review = _reviewed(algorithm, task, config)
    if review.errors:
        raise ConfigError(review.errors)
    data_hash = hash_tensors(identity)
    if is_applicable(algorithm, task):
        population, values = as_features(
            population, task, values, config.threads, data_dirs, on_feature
        )
        task = task_from_values(values)
    return Experiment(
        config=config,
        dataset=dataset.without_inputs(),  # the population holds them
        partition=partition,
        population=population,
        algorithm=algorithm,
        task=task,
        blueprint=Blueprint.of(algorithm, TASK_FACTORY, values),
        data_hash=data_hash,
        notes=review.notes,
    )


def _reviewed(algorithm: Algorithm, task: Task, config: RunConfig) -> Review:
    """What the algorithm says of the task, if it can have such networks at all."""
    traits, networks = algorithm.traits, set(config.model)
    if len(networks) > 1 and not (traits.keeps_own_models or traits.mixes_networks):
        return Review(
            errors=(
                f"{config.algorithm} needs one network for all clients, but {len(networks)} "
                f"different ones are given ({', '.join(config.model)}); give --model once, or use "
                "a method that takes any networks, such as accord or fedproto.",
            )
        )
    return algorithm.review(task) + masking_review(algorithm, task, config)


def task_values(
    dataset: Dataset, models: Sequence[str], data_dirs: Sequence[Path] = ()
) -> dict[str, Any]:
    """The task as plain values, from which any process can rebuild it."""
    return {
        "kind": dataset.kind,
        "input_shape": list(dataset.input_shape),
        "num_classes": dataset.num_classes,
        "mean": list(dataset.mean),
        "std": list(dataset.std),
        "vocabulary": dataset.vocabulary,
        "models": list(models),
        "data_dirs": [str(folder) for folder in data_dirs],
    }


def task_from_values(values: Mapping[str, Any]) -> Task:
    """The inverse of `task_values`."""
    kind, mean, std = values["kind"], tuple(values["mean"]), tuple(values["std"])
    shape = tuple(values["input_shape"])

    def factory(model: str) -> NetworkFactory:
        return network_factory(
            model,
            kind=kind,
            input_shape=shape,
            num_classes=values["num_classes"],
            vocabulary=values["vocabulary"],
            mean=mean,
            std=std,
            data_dirs=values["data_dirs"],
        )

    return Task(
        num_classes=values["num_classes"],
        input_shape=shape,
        networks=[factory(model) for model in values["models"]],
        prepare=prepare_fn(kind, mean, std),
        augmentations=augmentations(kind, mean, std),
        make_fixed=lambda name: cast(FixedNetwork, factory(f"frozen:{name}")(None)),
    )


def arrange(dataset: Dataset, partition: Partition, config: RunConfig) -> Population:
    """All clients' examples in one block, client by client."""
    order: list[np.ndarray] = []
    bounds = np.zeros((partition.num_clients, 4), dtype=np.int64)
    start = 0
    for client, indices in enumerate(partition.clients):
        parts = split_client(
            indices,
            validation=config.validation,
            test=config.test,
            seed=config.seed,
            client=client,
        )
        ends = start + np.cumsum([0, *(len(part) for part in parts)])
        bounds[client], start = ends, int(ends[-1])
        order += parts
    rows = np.concatenate(order) if order else np.zeros(0, dtype=np.int64)
    return Population(
        inputs=_rows(dataset.train.inputs, rows),
        labels=torch.from_numpy(dataset.train.labels[rows]),
        bounds=torch.from_numpy(bounds),
        test=_examples(dataset.test),
        test_groups={n: torch.from_numpy(g.copy()) for n, g in dataset.test.groups.items()},
    )


def _rows(inputs: np.ndarray, rows: np.ndarray) -> Tensor:
    """The chosen rows in memory of PyTorch's, whose alignment decides how products are rounded."""
    dtype = torch.from_numpy(inputs[:0].copy()).dtype
    out = torch.empty((len(rows), *inputs.shape[1:]), dtype=dtype)
    np.take(inputs, rows, axis=0, out=out.numpy(), mode="clip")  # other modes copy once more
    return out


def _examples(split: Split) -> Examples:
    # a copy: the arrays of a data set may be read-only, and tensors cannot say so
    return Examples(torch.tensor(split.inputs), torch.tensor(split.labels))
