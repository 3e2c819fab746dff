"""A site's examples, divided as the run says, and what may be told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedcord.core.contract import ClientId
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import hash_tensors
from fedcord.data.dataset import Array, Dataset, Labels
from fedcord.data.facts import DataFacts, Stated
from fedcord.data.holdout import split_client
from fedcord.data.registry import load_dataset
from fedcord.engine.population import Population
from fedcord.experiment.arrange import arrange
from fedcord.experiment.build import as_vectors, is_standardised, standardised
from fedcord.experiment.config import AT_SITES, RunConfig, partition_of
from fedcord.site.site_file import SiteFile


@dataclass(frozen=True)
class SiteData:
    """One client's data, as a node reads it.

    Attributes:
        site: whose.
        population: in which the client's data lies; in a rehearsal with the others'.
        place: the client's number in it.
        facts: the form and the classes of its own; constants only in a rehearsal, where everybody
            knows them.
        known_as: the fingerprint of examples that were changed into features since.
    """

    site: SiteFile
    population: Population
    place: int
    facts: DataFacts
    known_as: str | None = None

    @property
    def clients(self) -> Sequence[ClientId]:
        """Who lives here."""
        return (self.site.client,)

    @property
    def names(self) -> Mapping[ClientId, str]:
        """What people call it."""
        return {self.site.client: self.site.name} if self.site.name else {}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the site's examples."""
        if self.known_as is not None:
            return self.known_as
        data = self.client(self.site.client)
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        return hash_tensors(
            {f"{n}.inputs": part.inputs for n, part in parts.items()}
            | {f"{n}.labels": part.labels for n, part in parts.items()}
        )

    @property
    def test(self) -> Examples:
        """The common test set of a rehearsal; empty for a site's own data."""
        return self.population.test

    @property
    def test_groups(self) -> Mapping[str, Tensor]:
        """By name, the group of every example of the common test set."""
        return self.population.test_groups

    def client(self, client: ClientId) -> ClientData:
        """The site's data; nobody else's is here."""
        assert client == self.site.client
        return self.population.client(self.place)

    def sizes(self, client: ClientId) -> tuple[int, int, int]:
        """Numbers of training, validation and test examples."""
        assert client == self.site.client
        return self.population.sizes(self.place)

    def class_counts(self) -> dict[str, tuple[int, ...]]:
        """By part, examples of each class."""
        data, classes = self.client(self.site.client), self.facts.num_classes
        parts = {"train": data.train, "validation": data.validation, "test": data.test}
        return {
            name: tuple(part.labels.bincount(minlength=classes).tolist())
            for name, part in parts.items()
        }

    def agreed(self, facts: DataFacts) -> SiteData:
        """The same examples with labels as everybody numbers the classes, if they fit."""
        differences = Stated.of(facts).differences(self.facts)
        if self.site.is_rehearsal and facts.class_names != self.facts.class_names:
            differences.append("the classes are not those of the data set this site rehearses with")
        if differences:
            raise DataError(f"{self.site.who} does not fit the study: {'; '.join(differences)}.")
        numbers = [facts.class_names.index(name) for name in self.facts.class_names]
        labels = torch.tensor(numbers, dtype=torch.int64)[self.population.labels]
        people = replace(self.population, labels=labels)
        return replace(self, population=people, facts=facts)


def read_site(site: SiteFile, config: RunConfig) -> SiteData:
    """Load a site's data and divide it as the run says."""
    dataset = load_dataset(site.data, data_dirs=_folders(site))
    facts = DataFacts.of(dataset)
    if site.is_rehearsal:
        _check_rehearsal(site, config)
        dataset = as_vectors(config, dataset)
        facts = DataFacts.of(dataset)
        people = arrange(dataset, partition_of(config, dataset), config)
        if site.client >= people.num_clients:
            raise DataError(f"{site.who}: the rehearsal has {people.num_clients} clients, from 0.")
        if is_standardised(facts):
            facts = standardised(facts, people)
        return SiteData(site, people, site.client, facts)
    if not config.dataset.startswith(AT_SITES):
        raise DataError(
            f"{site.who} brings data of its own, but the study is about '{config.dataset}'; write "
            f"dataset = '{AT_SITES}NAME' in the study, or let the site rehearse with that data set."
        )
    if config.clients and site.client >= config.clients:
        raise DataError(
            f"{site.who} is not one of the study's {config.clients} clients, which are numbered 0 "
            f"to {config.clients - 1}; correct client in '{site.path}'."
        )
    if dataset.kind == "table":
        raise DataError(
            f"{site.who} has a table with named columns ({site.data}), and sites do not yet agree "
            "on those by themselves; bring it to numbers and save them as npz: on every site."
        )
    facts = replace(facts, mean=(), std=())  # of these examples alone; the run's are of everybody's
    data = _divided(site, config, dataset)
    nothing = Examples(data.train.inputs[:0].clone(), data.train.labels[:0].clone())
    return SiteData(site, Population.from_clients([data], nothing), 0, facts)


def _folders(site: SiteFile) -> list[Path] | None:
    return list(site.data_dirs) or None


def _check_rehearsal(site: SiteFile, config: RunConfig) -> None:
    """A slice is that of the simulation only if both are cut the same way."""
    mine = {"partition": site.partition, "clients": site.clients, "seed": site.seed}
    mine |= {} if ":" in site.data else {"dataset": site.data}
    different = [
        f"{name} is {value!r} in '{site.path}' and {getattr(config, name)!r} in the study"
        for name, value in mine.items()
        if value is not None and value != getattr(config, name)
    ]
    if different:
        raise ConfigError(f"{site.who} rehearses something else: {'; '.join(different)}.")


def _divided(site: SiteFile, config: RunConfig, dataset: Dataset) -> ClientData:
    """Training, validation and test parts of a site's own data."""
    train = dataset.train.inputs, dataset.train.labels
    test = dataset.test.inputs, dataset.test.labels
    share = 0.0
    if site.test is not None:
        train = _joined(train, test)
        test = test[0][:0], test[1][:0]
        if isinstance(site.test, str):
            test = _other(site, dataset)
        else:
            share = site.test
    elif not len(dataset.test):
        share = config.test
    parts = split_client(
        np.arange(len(train[1])),
        validation=config.validation,
        test=share,
        seed=config.seed,
        client=site.client,
    )
    cut = [_examples(train[0][rows], train[1][rows]) for rows in parts]
    return ClientData(cut[0], cut[1], cut[2] if len(cut[2]) else _examples(*test))


def _other(site: SiteFile, dataset: Dataset) -> tuple[Array, Labels]:
    """All examples of another file, with classes numbered as in the site's own."""
    assert isinstance(site.test, str)
    other = load_dataset(site.test, data_dirs=_folders(site))
    mine, theirs = DataFacts.of(dataset), DataFacts.of(other)
    differences = Stated.of(mine).differences(theirs)
    if differences:
        raise DataError(f"{site.who}: test data does not fit data: {'; '.join(differences)}.")
    numbers = np.array([mine.class_names.index(name) for name in theirs.class_names])
    inputs, labels = _joined(
        (other.train.inputs, other.train.labels), (other.test.inputs, other.test.labels)
    )
    return inputs, numbers[labels]


def _joined(one: tuple[Array, Labels], two: tuple[Array, Labels]) -> tuple[Array, Labels]:
    return np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]])


def _examples(inputs: Array, labels: Labels) -> Examples:
    return Examples(torch.tensor(inputs), torch.tensor(labels))
