"""From a configuration to the things that run: data, task, algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedcord.core.contract import Algorithm, Review
from fedcord.core.device import find_device
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.task import Task
from fedcord.core.tensors import hash_tensors
from fedcord.data.dataset import STANDARD, Array, Dataset
from fedcord.data.download import Progress as DownloadProgress
from fedcord.data.facts import DataFacts
from fedcord.data.heterogeneity import measure_heterogeneity
from fedcord.data.partition import Partition
from fedcord.data.registry import load_dataset
from fedcord.data.standardise import standardisation
from fedcord.data.tables.prepared import prepared
from fedcord.data.transforms import NUM_VIEWS
from fedcord.engine.agreement import Agreement
from fedcord.engine.attack import LABEL_FLIP, Attack, with_flipped_labels
from fedcord.engine.blueprint import Blueprint
from fedcord.engine.population import Population
from fedcord.experiment.arrange import arrange, parts_of
from fedcord.experiment.attackers import attack_note, read_attack
from fedcord.experiment.config import AT_SITES, RunConfig, partition_of
from fedcord.experiment.feature_store import OnExample
from fedcord.experiment.frozen_features import as_features, feature_values, is_applicable
from fedcord.experiment.holdings import TASK, Holdings
from fedcord.experiment.load import OWN_DATA
from fedcord.experiment.masking import masking_review
from fedcord.experiment.task_values import (
    TASK_FACTORY,
    TEST_VIEWS,
    task_from_values,
    task_values,
)
from fedcord.models.registry import check_model


@dataclass(frozen=True)
class Plan:
    """What a run is, as far as it can be known without an example.

    Attributes:
        config: the settings.
        facts: the form of the data and the constants it is prepared by.
        algorithm: the method.
        task: what it learns.
        values: the task as plain values, for others to make it from.
        encoder: the task whose frozen network turns examples into what `task` reads; None where
            examples are read as they are.
        notes: what the algorithm says of its settings for this task.
    """

    config: RunConfig
    facts: DataFacts
    algorithm: Algorithm
    task: Task
    values: Mapping[str, Any]
    encoder: Task | None = None
    notes: tuple[str, ...] = ()

    @property
    def blueprint(self) -> Blueprint:
        """Task and algorithm for processes other than this, which has the objects."""
        return Blueprint.of(self.algorithm, TASK_FACTORY, self.values)

    @property
    def values_of_work(self) -> Mapping[str, Any]:
        """The task as far as it can change what clients do before anything is predicted."""
        return {name: value for name, value in self.values.items() if name != TEST_VIEWS}

    @property
    def agreement(self) -> Agreement:
        """What everybody must have in common; somebody's files and devices are nobody's business.

        (The kind of device is among the settings, of which everybody has the hash.)
        """
        values = {k: v for k, v in self.values.items() if k not in ("data_dirs", "device")}
        task = {**self.facts.plain(), **values}
        if self.facts.words is not None:  # everybody has them by the terms of the run
            task["words"] = self.facts.words.digest
        return Agreement(self.config.hash, task, secure=self.config.secure)


@dataclass(frozen=True)
class Experiment:
    """A simulated run: its plan, and all data in one place.

    `data_hash` is of the examples as they were dealt out, of the test part, and of the constants
    that a table is standardised or one's own images are normalised by, before any frozen network
    looks at them: methods that are given features have the hash of those that are not.
    `stored_features` is the folder that keeps features of examples, if any.
    """

    plan: Plan
    dataset: Dataset
    partition: Partition
    population: Population
    data_hash: str
    stored_features: Path | None = None

    @property
    def config(self) -> RunConfig:
        """The settings."""
        return self.plan.config

    @property
    def algorithm(self) -> Algorithm:
        """The method."""
        return self.plan.algorithm

    @property
    def task(self) -> Task:
        """What it learns."""
        return self.plan.task

    @property
    def blueprint(self) -> Blueprint:
        """Method and task as plain values."""
        attack = self.attack
        return replace(self.plan.blueprint, attack=None if attack is None else attack.plain())

    @property
    def attack(self) -> Attack | None:
        """What some of the clients do instead of what they should."""
        return attack_of(self.config, self.partition.num_clients)

    @cached_property
    def holdings(self) -> Holdings:
        """Who holds what."""
        dataset, partition, people = self.dataset, self.partition, self.population
        labels = people.test.labels
        is_common = len(labels) > 0
        if not is_common:
            labels = torch.cat([people.client(k).test.labels for k in people.clients])
        counts = partition.counts(dataset.train.labels, dataset.num_classes)
        spread = measure_heterogeneity(counts, partition.client_names, dataset.class_names)
        return Holdings(
            spec=partition.spec,
            hash=partition.hash,
            data_hash=self.data_hash,
            num_clients=partition.num_clients,
            client_names=partition.client_names,
            class_names=dataset.class_names,
            counts=counts.tolist(),
            indices=partition.clients,
            files=dataset.train.files,
            group_names=dataset.group_names,
            has_common_test=is_common,
            test_counts=labels.bincount(minlength=dataset.num_classes).tolist(),
            notes=dataset.notes + spread.warnings,
            more={TASK: self.plan.facts.plain()},
        )

    def warnings(self) -> tuple[str, ...]:
        """What deserves a second look in the data's spread and the settings, in plain words."""
        return self.holdings.notes + self.plan.notes


def build_experiment(
    config: RunConfig,
    dataset: Dataset | None = None,
    data_dirs: Sequence[Path] | None = None,
    allow_download: bool = False,
    on_feature: OnExample = lambda done, total: None,
    on_download: DownloadProgress | None = None,
) -> Experiment:
    """Load data, spread it over clients, and make the task; the configuration has the algorithm.

    Args:
        config: from `load_config`.
        dataset: the user's own data instead of the configured name.
        data_dirs: where to look for data files.
        allow_download: whether missing data may be fetched from its official place.
        on_feature: (done, to do) while a frozen network computes features it has not yet stored.
        on_download: (bytes held, bytes in all or None) while data is fetched.
    """
    if dataset is None:
        dataset = load_configured(config, data_dirs, allow_download, on_download)
    dataset = as_vectors(config, dataset)
    check_networks(config, DataFacts.of(dataset), data_dirs)
    inputs, dataset = [dataset.train.inputs], dataset.without_inputs("train")
    partition, population = dealt(config, dataset, inputs)
    plan = fitted(config, dataset, population, data_dirs)
    data_hash = hash_tensors(population.tensors() | _constants(plan, dataset))
    stored = None
    if plan.encoder is not None:
        population, stored = as_features(
            population, plan.encoder, config.threads, data_dirs, on_feature
        )
    attack = attack_of(config, partition.num_clients)
    if attack is not None:
        plan = replace(plan, notes=(*plan.notes, attack_note(str(config.attack), attack.clients)))
        if attack.kind == LABEL_FLIP:
            population = with_flipped_labels(population, attack.clients, dataset.num_classes)
    # the population holds the inputs
    hollow = dataset.without_inputs("test")
    return Experiment(plan, hollow, partition, population, data_hash, stored)


def attack_of(config: RunConfig, num_clients: int) -> Attack | None:
    """Who of so many clients attacks, and how; None where all are honest."""
    if config.attack is None:
        return None
    spec = read_attack(config.attack)
    return Attack(spec.kind, spec.clients(config.seed, num_clients), spec.strength)


def _constants(plan: Plan, dataset: Dataset) -> dict[str, Tensor]:
    """What inputs are prepared by where no setting names it: a run must not go on with others."""
    found = {}
    if is_standardised(plan.facts):
        pair = [plan.facts.mean, plan.facts.std]
        found["standardisation"] = torch.tensor(pair, dtype=torch.float64)
    if plan.config.dataset.startswith(OWN_DATA) and dataset.mean:
        pair = [dataset.mean, dataset.std]
        found["normalisation"] = torch.tensor(pair, dtype=torch.float64)
    return found


def load_configured(
    config: RunConfig,
    data_dirs: Sequence[Path] | None,
    allow_download: bool,
    on_download: DownloadProgress | None,
) -> Dataset:
    """The data set of a simulation."""
    if config.dataset.startswith(AT_SITES):
        raise ConfigError(
            f"the data of '{config.dataset}' lies at sites and cannot be simulated with here; "
            "run the study over the sites, or name a data set to rehearse with."
        )
    return load_dataset(
        config.dataset, data_dirs=data_dirs, allow_download=allow_download, progress=on_download
    )


def check_networks(
    config: RunConfig, facts: DataFacts, data_dirs: Sequence[Path] | None = None
) -> None:
    """Refuse networks that cannot take the data's examples."""
    shape, folders = facts.input_shape, data_dirs or ()
    problems = [
        problem
        for model in config.model
        for problem in check_model(model, kind=facts.kind, input_shape=shape, data_dirs=folders)
    ]
    if problems:
        raise ConfigError(problems)


def as_vectors(config: RunConfig, dataset: Dataset) -> Dataset:
    """A table as the vectors that this run's clients train on; other data as it is."""
    if dataset.kind != "table":
        return dataset
    parts = parts_of(partition_of(config, dataset), config)
    return prepared(dataset, [training for training, *_ in parts])


def dealt(
    config: RunConfig, dataset: Dataset, inputs: list[Array] | None = None
) -> tuple[Partition, Population]:
    """Who holds what; `inputs` as for `arrange`."""
    partition = partition_of(config, dataset)
    population = arrange(dataset, partition, config, inputs)
    if len(population.test) == 0 and not any(population.sizes(k)[2] for k in population.clients):
        raise DataError(
            f"data set '{dataset.name}' has no test examples, and no client keeps any, so no "
            "accuracy could be measured; give it some, or let clients keep a share with --test 0.2."
        )
    return partition, population


def fitted(
    config: RunConfig,
    dataset: Dataset,
    population: Population,
    data_dirs: Sequence[Path] | None = None,
) -> Plan:
    """The plan of a simulation, or a ConfigError that says why it cannot work."""
    facts = DataFacts.of(dataset)
    if is_standardised(facts):
        facts = standardised(facts, population)
    return make_plan(config, facts, data_dirs)


def is_standardised(facts: DataFacts) -> bool:
    """Whether the constants come from sums over clients' training parts."""
    return facts.kind == "vector" and facts.scale == STANDARD


def standardised(facts: DataFacts, population: Population) -> DataFacts:
    """The facts with the constants of these people's training parts."""
    clients = map(population.client, range(population.num_clients))
    mean, std = standardisation([client.train.inputs.numpy() for client in clients])
    return replace(facts, mean=mean, std=std)


def make_plan(
    config: RunConfig,
    facts: DataFacts,
    data_dirs: Sequence[Path] | None = None,
    device: str | None = None,
) -> Plan:
    """The plan of a run over data of these facts, wherever the data is.

    Args:
        config: from `load_config`.
        facts: with the constants of preparation.
        data_dirs: where to look for weights.
        device: where networks run here, of a server or site that has its own; None: as configured.
    """
    check_networks(config, facts, data_dirs)
    algorithm: Algorithm | None = config.method
    if algorithm is None:
        raise ConfigError("there is no algorithm in this configuration; make it by load_config.")
    device = device or config.device
    find_device(device)
    values = task_values(facts, config.model, data_dirs or (), device, config.test_views)
    task, encoder = task_from_values(values), None
    review = _reviewed(algorithm, task, config)
    if review.errors:
        raise ConfigError(review.errors)
    if is_applicable(algorithm, task) and not task.test_views:  # features have no mirror image
        encoder, values = task, {**values, **feature_values(task, config.threads)}
        task = task_from_values(values)
    return Plan(config, facts, algorithm, task, values, encoder, tuple(review.notes))


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
    if isinstance(config.participation, tuple) and traits.probes:
        return Review(
            errors=(
                f"participation = {list(config.participation)}: {config.algorithm} exchanges once, "
                "and its rounds before only look at how far clients are; give one share.",
            )
        )
    review = algorithm.review(task) + masking_review(algorithm, task, config)
    return review + _views_review(algorithm, task, config)


def _views_review(algorithm: Algorithm, task: Task, config: RunConfig) -> Review:
    """What is to be said of a run with `test_views`; nothing without."""
    if config.test_views is None:
        return Review()
    note = (
        f"Predictions are averaged over {NUM_VIEWS[config.test_views]} views of each image "
        f"({config.test_views}), each of which is a pass of the model; compare with methods that "
        "have them too."
    )
    if is_applicable(algorithm, task):
        note += " The frozen network looks at images every time, since its features have no views."
    return Review(notes=(note,))
