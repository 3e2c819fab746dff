"""The task of data at sites: stated by the study, or asked of the sites before the run.

Sites answer with the form of their examples, the names of their classes and sums over their
training parts, never with an example. A table takes two questions, as in a simulation: Σx first,
then, with the mean known, Σ(x − mean)². So does a table with named columns: what each column is
taken for, then, with one kind agreed on, its sums. The constants are computed from the sums by the
code that simulations use, in the order of clients, and have the bits of a simulation over the same
parts.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcord.core.errors import ConfigError, DataError, ProtocolError
from fedcord.core.names import client_said, told_name
from fedcord.core.tensors import Tensors
from fedcord.data.channel_sums import channel_constants
from fedcord.data.facts import COMPUTED, FORM, DataFacts, Stated
from fedcord.data.standardise import Floats, constants, mean_of
from fedcord.data.tables.cells import listed
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.raw import in_order
from fedcord.data.tables.schema import TableSchema
from fedcord.data.tables.sums import NumberSums, TableSums
from fedcord.data.tables.survey import TableForm, agreed_schema, mixed_columns
from fedcord.engine.patience import Patience
from fedcord.engine.requests import Parcel, Reply, Request, count, unpack_replies
from fedcord.engine.transport import Transport
from fedcord.experiment.build import is_standardised
from fedcord.experiment.config import RunConfig
from fedcord.experiment.terms import Terms

MEAN, FIRST, SECOND = "mean", "first", "second"
"""Names of the sums that pass, and of the mean that the second question brings."""
TABLE, COLUMNS, SUMS = "table", "columns", "sums"
"""For tables with named columns: what a site says of them, what is agreed, and their sums."""


@dataclass(frozen=True)
class Sites:
    """How a server reaches sites that own their data.

    Attributes:
        reach: opens the way to them; every message takes the terms along.
        stated: what the study says of the task before anybody is asked.
        name: of the way, for the result.
        device: where the server's own networks run; None: as configured. Sites have their own.
    """

    reach: Callable[[Terms], Transport]
    stated: Stated = field(default_factory=Stated)
    name: str = "sites"
    device: str | None = None


@dataclass(frozen=True)
class Answer:
    """What one site says of its data.

    Attributes:
        client: who.
        name: what people call it.
        facts: the form of its examples and its classes; with constants where it knows them from a
            data set that everybody has.
        count: training examples.
        sums: over them.
        table: where it has named columns, what they are.
        columns: their sums as it sent them, once it was asked.
    """

    client: int
    name: str
    facts: DataFacts
    count: int
    sums: Tensors
    table: TableForm | None = None
    columns: object = None

    @property
    def who(self) -> str:
        """For messages."""
        return client_said(self.client, {self.client: self.name})


def survey(config: RunConfig, sites: Sites, patience: Patience) -> DataFacts:
    """Ask every site, and agree on the task; sites that the study refuses are left out."""
    with contextlib.closing(sites.reach(Terms(config))) as transport:
        answers, refused = _asked(transport, {}), list[str]()
        fitting = {}
        for node, answer in sorted(answers.items(), key=lambda item: item[1].client):
            differences = sites.stated.differences(answer.facts)
            if differences:
                refused.append(f"{answer.who} does not fit: {'; '.join(differences)}.")
            else:
                fitting[node] = answer
        least = max(1, patience.quorum * config.clients)
        if len(fitting) < least:
            raise ConfigError(
                [
                    f"{len(fitting)} of {config.clients or 'the'} sites have answered the survey "
                    f"with data that fits the study; {least:g} are needed (see --quorum).",
                    *refused,
                ]
            )
        facts = _common(list(fitting.values()), sites.stated)
        if facts.kind == "table":
            return _prepared(facts, sites.stated, fitting, transport)
        if facts.mean or not any(answer.count for answer in fitting.values()):
            return facts
        if facts.kind == "image":
            sums = [_channel_sums(answer, facts) for answer in fitting.values()]
            mean, std = channel_constants(sums)
            return replace(facts, mean=mean, std=std)
        if not is_standardised(facts):
            return facts
        return _standardised(facts, fitting, transport)


def _standardised(
    facts: DataFacts, fitting: Mapping[int, Answer], transport: Transport
) -> DataFacts:
    total = sum(answer.count for answer in fitting.values())
    mean = mean_of([_sum(answer, FIRST, facts) for answer in fitting.values()], total)
    again = _asked_again(transport, fitting, {MEAN: torch.from_numpy(mean)}, {})
    made = constants([_sum(again[node], SECOND, facts) for node in fitting], mean, total)
    return replace(facts, mean=made[0], std=made[1])


def _prepared(
    facts: DataFacts, stated: Stated, fitting: Mapping[int, Answer], transport: Transport
) -> DataFacts:
    """What becomes of the columns of all sites' tables."""
    forms = {}
    for answer in fitting.values():
        if answer.table is None:
            raise ProtocolError(f"{answer.who} did not say what its columns are.")
        forms[answer.who] = answer.table
    schema = agreed_schema(forms)
    kinds = {column.name: column.kind for column in schema.columns}
    try:
        again = _asked_again(transport, fitting, {}, {COLUMNS: kinds})
    except ConfigError as error:  # a site knows only its own half of a disagreement
        raise ConfigError([*error.problems, *mixed_columns(forms)]) from error
    total = functools.reduce(operator.add, [_table_sums(again[node], schema) for node in fitting])
    made = facts.prepared(TablePreparation.from_sums(total, schema, facts.class_names))
    if stated.input_shape not in (None, made.input_shape):
        raise ConfigError(
            f"the sites' tables become {made.input_shape[0]} inputs, and the study has input_shape "
            f"= {list(stated.input_shape or ())}; leave it out of [task]."
        )
    return made


def _table_sums(answer: Answer, schema: TableSchema) -> TableSums:
    """A site's sums over its columns, checked."""
    try:
        sums = TableSums.from_json(answer.columns)
    except DataError as error:
        raise ProtocolError(
            f"{answer.who} did not send the sums of its columns: {error}"
        ) from error
    expected = {column.name: column.kind != "categorical" for column in schema.columns}
    found = {name: isinstance(own, NumberSums) for name, own in sums.columns.items()}
    if found != expected or any(own.cells != answer.count for own in sums.columns.values()):
        raise ProtocolError(
            f"{answer.who} sent sums of other columns than it was asked for, or of other rows than "
            f"its {answer.count} training rows."
        )
    return sums


def _asked_again(
    transport: Transport,
    fitting: Mapping[int, Answer],
    shared: Tensors,
    options: Mapping[str, Any],
) -> dict[int, Answer]:
    """The second question, to which nobody may be silent: the first answers count already."""
    again = _asked(transport, shared, tuple(fitting), options)
    lost = [answer.who for node, answer in fitting.items() if node not in again]
    if lost:
        raise ProtocolError(
            f"{', '.join(lost)} did not answer the second question of the survey; begin again."
        )
    return again


def _asked(
    transport: Transport,
    shared: Tensors,
    nodes: tuple[int, ...] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[int, Answer]:
    """By node, what sites answer; one that cannot is an error, as nothing is agreed yet."""
    asked = transport.nodes if nodes is None else nodes
    parcels = [Parcel(options=options or {}, node=node) for node in asked]
    found, problems = {}, []
    for delivery in transport.exchange(Request("survey", shared), parcels):
        node = parcels[delivery.place].node
        assert node is not None
        if delivery.outcome == "absent":
            continue
        if delivery.outcome != "arrived":
            problems.append(f"node {node}: {delivery.reason}")
            continue
        replies = delivery.replies
        read = unpack_replies(replies) if isinstance(replies, bytes) else list(replies)
        try:
            if not isinstance(read, list) or len(read) != 1:
                raise ProtocolError(str(read))
            found[node] = _answer(read[0])
        except (ProtocolError, DataError, ConfigError) as error:
            problems.append(f"node {node}: its answer to the survey is not one ({error})")
    if problems:
        raise ConfigError(problems)
    return found


def _answer(reply: Reply) -> Answer:
    values = reply.values
    try:
        client, name, size = count(values["client"]), told_name(values["name"]), values["count"]
        facts = DataFacts.from_plain(values["facts"])
        table = None if TABLE not in values else TableForm.from_json(values[TABLE])
        sums = reply.tensors
        return Answer(client, name, facts, count(size), sums, table, values.get(SUMS))
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"incomplete, {error}") from error


def _common(answers: list[Answer], stated: Stated) -> DataFacts:
    """What all sites' data has in common; what differs is told by name."""
    first, problems = answers[0], []
    vocabulary = max(answer.facts.vocabulary for answer in answers)
    for answer in answers[1:]:
        problems += [
            f"{answer.who} has {name.replace('_', ' ')} {getattr(answer.facts, name)!r} and "
            f"{first.who} {getattr(first.facts, name)!r}; bring them to one, or say in [task] of "
            "the study which is meant."
            for name in FORM
            if getattr(answer.facts, name) != getattr(first.facts, name)
            and (name != "input_shape" or answer.facts.kind != "table")  # columns are told by name
        ]
        if answer.facts.words != first.facts.words:
            problems.append(
                f"{answer.who} and {first.who} have not numbered the words of their texts by one "
                "list; give all sites the same words."
            )
        if answer.facts.grey != first.facts.grey:
            problems.append(
                f"{answer.who} and {first.who} do not take the same grey values for black and "
                "white; give all sites pictures of one depth, and of more than 8 bits one "
                "?range= after the path."
            )
        others = [n for n in COMPUTED if n not in ("words", "grey")]
        if any(getattr(answer.facts, n) != getattr(first.facts, n) for n in others):
            problems.append(
                f"{answer.who} prepares its data by other constants than {first.who}; let all of "
                "them rehearse with one data set, or none."
            )
    if first.facts.kind == "table" and stated.class_names is None:
        problems += _foreign(answers)
    if problems:
        raise ConfigError(problems)
    return replace(
        first.facts,
        class_names=stated.class_names or _all_classes(answers),
        vocabulary=stated.vocabulary or vocabulary,
    )


def _foreign(answers: list[Answer]) -> list[str]:
    """Sites of whose classes nobody else has a single one: they may be spelt otherwise there."""
    problems = []
    for answer in answers:
        own, others = answer.facts.class_names, [a for a in answers if a is not answer]
        known = in_order({name for other in others for name in other.facts.class_names})
        if others and not set(own) & set(known):
            problems.append(
                f"{answer.who} has the classes {listed(own)}, of which no other site has any "
                f"({listed(known)}); spell them alike everywhere, or say in [task] class_names of "
                "the study that all of them are meant."
            )
    return problems


def _all_classes(answers: list[Answer]) -> tuple[str, ...]:
    """One list where all have it; else every name that occurs, numbers by their size."""
    lists = {answer.facts.class_names for answer in answers}
    if len(lists) == 1:
        return next(iter(lists))
    return in_order({name for names in lists for name in names})


def _sum(answer: Answer, name: str, facts: DataFacts) -> Floats:
    """A site's sums over its features, checked."""
    tensor = answer.sums.get(name)
    if tensor is None or tensor.dtype != torch.float64 or tensor.shape != facts.input_shape:
        raise ProtocolError(f"{answer.who} did not send the {name} sums of its features.")
    if not bool(torch.isfinite(tensor).all()):
        raise ProtocolError(f"{answer.who} sent {name} sums that are not finite.")
    found: Floats = np.ascontiguousarray(tensor.numpy())
    return found


def _channel_sums(answer: Answer, facts: DataFacts) -> list[tuple[int, int, int]]:
    """A site's sums over its channels, checked."""
    tensor: Tensor | None = answer.sums.get(FIRST)
    expected = (facts.input_shape[0], 3)
    is_sound = tensor is not None and tensor.dtype == torch.int64 and tensor.shape == expected
    if tensor is None or not is_sound or bool((tensor < 0).any()):
        raise ProtocolError(f"{answer.who} did not send the sums of its channels.")
    return [(int(pixels), int(first), int(second)) for pixels, first, second in tensor.tolist()]
