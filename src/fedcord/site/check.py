"""What a study would mean for a site, told at the site before anything is sent.

Which tensors pass is what the algorithm itself says (`expected_update`), round by round. Later
rounds depend on what the server has made of earlier ones, so these are tried here: a few of the
site's own examples stand for those of every client.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import torch

from fedcord.core.contract import ClientId, Env, Probes
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import Tensors, TensorSpec, num_bytes
from fedcord.data.facts import DataFacts, Stated
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.schema import TableSchema
from fedcord.data.tables.sums import TableSums
from fedcord.data.tables.survey import agreed_schema
from fedcord.engine.population import Population
from fedcord.engine.sampling import num_in_round
from fedcord.engine.summands import needs_only
from fedcord.engine.threads import torch_threads
from fedcord.engine.traffic import WEIGHT_BYTES
from fedcord.experiment.build import Plan
from fedcord.experiment.config import RunConfig
from fedcord.experiment.frozen_features import as_features
from fedcord.experiment.terms import Terms
from fedcord.site.own_data import SiteData, read_site
from fedcord.site.own_plan import plan_at
from fedcord.site.site_file import SiteFile

TRIED_EXAMPLES = 16
"""Enough for every method to take a step, few enough to take no time."""


@dataclass(frozen=True)
class Message:
    """One tensor that the site would send.

    Attributes:
        name: as the algorithm calls it.
        shape: of the values.
        dtype: their type.
        bytes: their size; where only some rows are sent, the most there can be.
        is_most: whether it may be less: classes without examples cost nothing.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    is_most: bool


@dataclass(frozen=True)
class RoundMessages:
    """What passes between server and site in rounds that are alike.

    Attributes:
        first: number of the first of them, from 1.
        last: number of the last.
        sends: tensors from the site.
        bytes_up: all of them and the weight, in one round.
        bytes_down: what the site is sent in one round.
        hidden: in a masked round, what is in the masked message; of it the server reads everybody's
            sum only.
    """

    first: int
    last: int
    sends: tuple[Message, ...]
    bytes_up: int
    bytes_down: int
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class SiteCheck:
    """What a method of a study would mean for a site.

    Attributes:
        contender: its label in the study.
        problems: why the site does not fit; nothing passes then.
        rounds: what passes.
        keeps: what stays at the site, in words.
        counting: tensors that tell how many examples of each class there are, whatever the site
            shares otherwise.
    """

    contender: str
    problems: tuple[str, ...]
    rounds: tuple[RoundMessages, ...]
    keeps: tuple[str, ...]
    counting: tuple[str, ...] = ()

    @property
    def bytes_up(self) -> int:
        """What the site sends in all rounds together."""
        return sum(part.bytes_up * (part.last - part.first + 1) for part in self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {**asdict(self), "bytes_up": self.bytes_up}


def check_site(
    site: SiteFile, contenders: Mapping[str, RunConfig], stated: Stated
) -> tuple[SiteData | None, list[SiteCheck]]:
    """The site's data, and what each of a study's methods would mean for it."""
    checks, data = [], None
    for label, config in contenders.items():
        try:
            found = read_site(site, config)
            data = data or found
            facts = expected_facts(found, stated)
            Terms(config, facts)  # refuses what a site would refuse
            differences = stated.differences(found.facts)
            if differences:
                raise DataError(f"{site.who} does not fit the study: {'; '.join(differences)}.")
            plan = plan_at(site, config, facts)
            with torch_threads(config.threads):
                rounds = tuple(_rounds(plan, _tried(found.agreed(facts), plan), site.client))
            counting = _counting(rounds, facts.num_classes)
            checks.append(SiteCheck(label, (), rounds, _kept(plan, site, counting), counting))
        except (ConfigError, DataError) as error:
            problems = error.problems if isinstance(error, ConfigError) else (str(error),)
            checks.append(SiteCheck(label, tuple(problems), (), ()))
    return data, checks


def expected_facts(data: SiteData, stated: Stated) -> DataFacts:
    """What will be agreed, as far as one site can tell; its own constants stand for everybody's."""
    own = data.facts
    known = own.mean or own.kind == "text" or own.scale == "none"
    columns = own.input_shape[0] if own.kind == "image" else math.prod(own.input_shape)
    facts = replace(
        own,
        class_names=stated.class_names or own.class_names,
        vocabulary=stated.vocabulary or own.vocabulary,
        mean=own.mean if known else (0.0,) * columns,
        std=own.std if known else (1.0,) * columns,
    )
    if not data.tables:
        return facts
    schema, sums = survey_sums(data)
    return facts.prepared(TablePreparation.from_sums(sums, schema, facts.class_names))


def survey_sums(data: SiteData) -> tuple[TableSchema, TableSums]:
    """What a site with a table of its own would send in a survey, if all others had its columns."""
    site, table = data.site, data.tables[0]
    problems = table.problems()
    if problems:
        raise ConfigError([f"{site.who}: {problem}" for problem in problems])
    schema = agreed_schema({site.who: table.form})
    kinds = {column.name: column.kind for column in schema.columns}
    return schema, table.sums(kinds, data.client(site.client).train.inputs.numpy())


def _tried(data: SiteData, plan: Plan) -> ClientData:
    """A few of the site's training examples, as the algorithm reads them."""
    train = data.client(data.site.client).train
    part = Examples(train.inputs[:TRIED_EXAMPLES], train.labels[:TRIED_EXAMPLES])
    if not len(part):
        raise DataError(f"{data.site.who} has no training examples; give it some.")
    nothing = Examples(part.inputs[:0], part.labels[:0])
    people = Population.from_clients([ClientData(part, nothing, nothing)], nothing)
    if plan.encoder is not None:
        folders = data.site.data_dirs or None
        threads = plan.config.threads
        people, _ = as_features(people, plan.encoder, threads, folders, lambda done, total: None)
    return people.client(0)


def _rounds(plan: Plan, data: ClientData, client: int) -> list[RoundMessages]:
    """What passes in every round; rounds that are alike are told once."""
    algorithm, config = plan.algorithm, plan.config
    assert config.rounds is not None
    state = algorithm.init(Env(plan.task, config.seed, num_rounds=config.rounds))
    memories: dict[ClientId, Tensors] = {}
    found: list[RoundMessages] = []
    for round_ in range(config.rounds):
        others = _participants(config, client, round_)
        here = Env(plan.task, config.seed, round_, config.rounds)
        sends = algorithm.expected_update(state.shared, here.at(client))
        is_masked = config.secure is not None and needs_only(algorithm, here) is not None
        is_probe = bool(algorithm.traits.probes) and cast(Probes, algorithm).is_probe(here)
        if not is_probe:  # a deployment has none
            passed = _masked(sends, len(others)) if is_masked else _in_the_open(sends)
            down = passed.bytes_down + num_bytes(state.shared)
            _append(found, replace(passed, first=round_ + 1, last=round_ + 1, bytes_down=down))
        is_settled = algorithm.traits.rounds is None and round_ >= 2 and len(found) < round_ + 1
        if is_settled or round_ + 1 == config.rounds:
            found[-1] = replace(found[-1], last=config.rounds)
            break
        updates = []
        for k in others:
            result = algorithm.client_update(state.shared, memories.get(k, {}), data, here.at(k))
            memories[k] = result.memory
            updates.append((k, result.update))
        state = algorithm.aggregate(state, iter(updates), here)
    return found


def _in_the_open(sends: Mapping[str, TensorSpec]) -> RoundMessages:
    """An update as it is."""
    messages = tuple(_message(name, spec) for name, spec in sorted(sends.items()))
    return RoundMessages(1, 1, messages, sum(m.bytes for m in messages) + WEIGHT_BYTES, 0)


def _masked(sends: Mapping[str, TensorSpec], count: int) -> RoundMessages:
    """What takes the place of an update, whose weight is among the masked numbers."""
    from fedcord.engine.masked_round import sent_by_a_site, sent_to_a_site

    messages = tuple(_message(*item) for item in sent_by_a_site(sends, count).items())
    up, down = sum(message.bytes for message in messages), sent_to_a_site(count)
    return RoundMessages(1, 1, messages, up, down, hidden=tuple(sorted(sends)))


def _participants(config: RunConfig, client: ClientId, round_: int) -> list[ClientId]:
    """As many clients as a round would have, this one among them."""
    everybody = max(config.clients, client + 1)
    count = num_in_round(config.participation, round_, everybody)
    return sorted([client, *[k for k in range(everybody) if k != client][: count - 1]])


def _append(found: list[RoundMessages], passed: RoundMessages) -> None:
    before = found[-1] if found else None
    if before is not None and replace(passed, first=before.first) == replace(
        before, last=passed.last
    ):
        found[-1] = replace(before, last=passed.last)
    else:
        found.append(passed)


def _message(name: str, spec: TensorSpec) -> Message:
    size = math.prod(spec.shape) * torch.empty(0, dtype=spec.dtype).element_size()
    kind = str(spec.dtype).removeprefix("torch.")
    return Message(name, spec.shape, kind, size, spec.announced_by is not None)


def _counting(rounds: tuple[RoundMessages, ...], num_classes: int) -> tuple[str, ...]:
    """Messages that are counts of classes by their name and shape."""
    return tuple(
        sorted(
            {
                message.name
                for part in rounds
                for message in part.sends
                if message.name.endswith("count") and message.shape == (num_classes,)
            }
        )
    )


def _kept(plan: Plan, site: SiteFile, counting: tuple[str, ...]) -> tuple[str, ...]:
    """What stays, in words."""
    traits = plan.algorithm.traits
    kept = ["every example and label", "the file site.toml"]
    if not site.share_class_counts and not counting:
        kept.append("how many examples of each class there are")
    if traits.keeps_own_models:
        kept.append(f"the site's own model, in '{site.memory}'")
    if traits.personalizes:
        kept.append(f"the personal model made after the last round, in '{site.memory}'")
    kept.append(f"whatever else the method remembers between rounds, in '{site.memory}'")
    return tuple(kept)
