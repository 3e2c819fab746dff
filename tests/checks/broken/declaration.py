"""Algorithms that declare themselves wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fedcord.core.contract import (
    Env,
    Review,
    Traits,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from tests.checks.sound import NearestMean


@dataclass(frozen=True)
class PersonalizesInWordsOnly(NearestMean):
    """Announces a verb that is spelt otherwise."""

    traits = Traits(rounds=1, additive=True, personalizes=True)

    def personalise(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        return memory


@dataclass(frozen=True)
class PersonalizesNothing(NearestMean):
    """Announces what it does not do with these parameters."""

    personal: bool = param(False, "whether clients keep an offset")

    traits = Traits(rounds=1, additive=True, personalizes=True)

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        return {"offset": torch.ones(env.task.num_classes)} if self.personal else memory


@dataclass(frozen=True)
class KeepsThingsToItself(NearestMean):
    """Has a verb that nobody would ever call."""

    def observations(self, client: int, metrics: Mapping[str, float]) -> tuple[str, ...]:
        return ("all is well",)


@dataclass(frozen=True)
class HalfStacked(NearestMean):
    """Has one of the two verbs that it announces."""

    traits = Traits(rounds=1, additive=True, stacks=True)

    def can_stack(self, task: Task) -> bool:
        return False


@dataclass(frozen=True)
class LetsTraitsBeSet(NearestMean):
    """Its traits would be a parameter, because they have a type."""

    traits: Traits = Traits(rounds=1, additive=True)  # noqa: RUF009 - the mistake itself


@dataclass(frozen=True)
class DeclaresByDictionary(NearestMean):
    """Its traits have no fixed names, so any misspelling would do."""

    traits = {"rounds": 1, "aditive": True}  # type: ignore[assignment]  # noqa: RUF012


@dataclass(frozen=True)
class ReviewsInPlainText(NearestMean):
    """Returns a text, of which nobody knows whether it is an error."""

    def review(self, task: Task) -> Review:
        return "all is well"  # type: ignore[return-value]


@dataclass(frozen=True)
class ReviewsWithoutComma(NearestMean):
    """Returns a text where a tuple of texts was meant."""

    def review(self, task: Task) -> Review:
        return Review(errors="too few classes")  # type: ignore[arg-type]


@dataclass(frozen=True)
class RefusesTheTask(NearestMean):
    """Cannot be checked here, and says so."""

    def review(self, task: Task) -> Review:
        return Review(errors=("it needs at least 1000 classes.",))
