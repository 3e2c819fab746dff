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
from fedcord.data.dataset import Array, Dataset, Labels, Split
from fedcord.data.facts import DataFacts, Stated
from fedcord.data.holdout import split_client
from fedcord.data.registry import check_spec, load_dataset
from fedcord.engine.population import Population
from fedcord.experiment.arrange import arrange
from fedcord.experiment.build import as_vectors, is_standardised, standardised
from fedcord.experiment.config import AT_SITES, RunConfig, partition_of
from fedcord.site.own_table import OwnTable, read_own_table
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
        tables: where nothing is agreed yet about a table with named columns: its rows, and those of
            another table to test on. The population's inputs are the places of rows then.
    """

    site: SiteFile
    population: Population
    place: int
    facts: DataFacts
    known_as: str | None = None
    tables: tuple[OwnTable, ...] = ()

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
        differences = self._differences(facts)
        if differences:
            raise DataError(f"{self.site.who} does not fit the study: {'; '.join(differences)}.")
        numbers = [facts.class_names.index(name) for name in self.facts.class_names]
        labels = torch.tensor(numbers, dtype=torch.int64)[self.population.labels]
        people = replace(self.population, labels=labels)
        if self.tables:
            assert facts.preparation is not None
            rows = np.concatenate([table.vectors(facts.preparation) for table in self.tables])
            people = replace(people, inputs=torch.tensor(rows[people.inputs.numpy()]))
            nothing = Examples(people.inputs[:0].clone(), people.labels[:0].clone())
            people = replace(people, test=nothing)
        return replace(self, population=people, facts=facts, tables=())

    def _differences(self, facts: DataFacts) -> list[str]:
        """In what the data differs from what was agreed, in words."""
        table = facts.preparation
        if table is not None and self.tables:
            form = Stated(class_names=facts.class_names)  # of the rest, the columns decide
            found = form.differences(self.facts)
            return found + [why for own in self.tables for why in own.differences(table)]
        found = Stated.of(facts).differences(self.facts)
        if facts.grey != self.facts.grey:
            found.append("other grey values are black and white there than in the study")
        if facts.words != self.facts.words:
            found.append("texts are not numbered by the words that the study has")
        if self.site.is_rehearsal and facts.class_names != self.facts.class_names:
            found.append("the classes are not those of the data set this site rehearses with")
        if table is not None and not self.site.is_rehearsal:
            found.append("the study is about tables with named columns, such as csv:PATH")
        return found


def read_site(site: SiteFile, config: RunConfig) -> SiteData:
    """Load a site's data and divide it as the run says."""
    if site.is_rehearsal:
        return _rehearsed(site, config)
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
    try:
        table = read_own_table(site.data)
        if table is not None:
            return _tabled(site, config, table)
        dataset = load_dataset(site.data, data_dirs=_folders(site))
    except DataError as error:  # the server must learn whose data it is
        raise DataError(_with_name(site, str(error))) from error
    if dataset.grey is not None and "range" not in check_spec(site.data)[0].options:
        raise DataError(
            f"{site.who} has pictures with more than 8 bits of grey, and each site alone would "
            "make other values black and white; say at all sites which are, as in ?range=0:4095 "
            "after the path."
        )
    # those of these examples alone; the run's are of everybody's
    facts = replace(DataFacts.of(dataset), mean=(), std=())
    other = _other(site, dataset) if isinstance(site.test, str) else None
    return _own(site, _divided(site, config, dataset.train, dataset.test, other), facts)


def _with_name(site: SiteFile, text: str) -> str:
    return text if text.startswith(site.who) else f"{site.who}: {text}"


def _rehearsed(site: SiteFile, config: RunConfig) -> SiteData:
    """The slice of a data set that everybody has."""
    _check_rehearsal(site, config)
    dataset = as_vectors(config, load_dataset(site.data, data_dirs=_folders(site)))
    facts = DataFacts.of(dataset)
    people = arrange(dataset, partition_of(config, dataset), config)
    if site.client >= people.num_clients:
        raise DataError(f"{site.who}: the rehearsal has {people.num_clients} clients, from 0.")
    if is_standardised(facts):
        facts = standardised(facts, people)
    return SiteData(site, people, site.client, facts)


def _tabled(site: SiteFile, config: RunConfig, table: OwnTable) -> SiteData:
    """A table, of which only the places of rows are divided before its columns are agreed on."""
    names = table.class_names
    if not table.form.kinds:
        raise DataError(f"{site.who}: '{site.data}' has no column beside the target; add some.")
    facts = DataFacts("table", (len(table.form.kinds),), names, scale="none")
    tables: tuple[OwnTable, ...] = (table,)
    other = None
    if isinstance(site.test, str):
        tested = read_own_table(site.test)
        if tested is None:
            raise DataError(f"{site.who}: data is a table, and test is none ({site.test}).")
        differences = Stated(class_names=names).differences(
            replace(facts, class_names=tested.class_names)
        )
        if differences:
            raise DataError(f"{site.who}: test data does not fit data: {'; '.join(differences)}.")
        rows, labels = _joined(_arrays(tested.train), _arrays(tested.test))
        numbers = np.array([names.index(name) for name in tested.class_names])
        tables, other = (table, tested), (len(table.raw) + rows, numbers[labels])
    divided = _divided(site, config, table.train, table.test, other)
    return replace(_own(site, divided, facts), tables=tables)


def _own(site: SiteFile, data: ClientData, facts: DataFacts) -> SiteData:
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


def _divided(
    site: SiteFile,
    config: RunConfig,
    training: Split,
    testing: Split,
    other: tuple[Array, Labels] | None,
) -> ClientData:
    """Training, validation and test parts of a site's own data; `other` is tested on instead."""
    train, test = _arrays(training), _arrays(testing)
    share = 0.0
    if site.test is not None:
        train = _joined(train, test)
        test = other or (test[0][:0], test[1][:0])
        share = 0.0 if isinstance(site.test, str) else site.test
    elif not len(testing):
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
    inputs, labels = _joined(_arrays(other.train), _arrays(other.test))
    return inputs, numbers[labels]


def _arrays(part: Split) -> tuple[Array, Labels]:
    return part.inputs, part.labels


def _joined(one: tuple[Array, Labels], two: tuple[Array, Labels]) -> tuple[Array, Labels]:
    return np.concatenate([one[0], two[0]]), np.concatenate([one[1], two[1]])


def _examples(inputs: Array, labels: Labels) -> Examples:
    return Examples(torch.tensor(inputs), torch.tensor(labels))
