"""Traits and verbs are held together, and parts of an algorithm are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.registry import algorithm_class
from fedcord.core.contract import Review, Traits
from fedcord.core.declaration import ANNOUNCED, check_declaration, declaration_problems
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.core.parts import review_of_parts
from fedcord.core.task import Task
from tests import federation
from tests.checks.sound import NearestMean

VERBS = [(trait, verb) for trait, verbs in ANNOUNCED.items() for verb in verbs]


def test_a_sound_declaration_has_no_problem() -> None:
    check_declaration(FedAvg())
    check_declaration(NearestMean())


def test_a_misspelt_trait_does_not_exist() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'personalises'"):
        Traits(personalises=True)  # type: ignore[call-arg]


def test_every_announced_verb_belongs_to_a_trait_that_is_off_by_default() -> None:
    assert {f.name for f in fields(Traits)} >= set(ANNOUNCED)
    assert not any(getattr(Traits(), trait) for trait in ANNOUNCED)
    assert Traits().rounds is None


@pytest.mark.parametrize(("trait", "verb"), VERBS)
def test_a_verb_without_its_trait_is_refused_by_both_names(trait: str, verb: str) -> None:
    method = type("Mute", (NearestMean,), {verb: lambda self: None})
    with pytest.raises(ConfigError, match=f"has the verb {verb} but .* the trait {trait}, so it"):
        check_declaration(method())


@pytest.mark.parametrize(("trait", "verb"), VERBS)
def test_a_trait_without_its_verb_is_refused_by_both_names(trait: str, verb: str) -> None:
    announced: Mapping[str, Any] = {trait: True}
    method = type("Boaster", (NearestMean,), {"traits": Traits(rounds=1, **announced)})
    with pytest.raises(ConfigError, match=f"announces the trait {trait} but has no verb {verb};"):
        check_declaration(method())


@pytest.mark.parametrize(("trait", "verb"), VERBS)
def test_a_verb_may_be_there_and_not_used_with_these_parameters(trait: str, verb: str) -> None:
    off: Mapping[str, Any] = {trait: False}
    method = type("Shy", (NearestMean,), {"traits": Traits(rounds=1, **off), verb: lambda self: 0})
    check_declaration(method())


@pytest.mark.parametrize(("rounds", "first"), [(2, 2), (2, -1), (None, 1)])
def test_something_must_come_after_what_settles_first(rounds: int | None, first: int) -> None:
    traits = Traits(rounds=rounds, settles_first=(first, "the encoders"))
    with pytest.raises(ConfigError, match=f"says that {first} rounds come first of {rounds};"):
        check_declaration(type("Early", (NearestMean,), {"traits": traits})())


@pytest.mark.parametrize("name", ["accord", "deepafl"])
def test_methods_personalise_where_their_parameters_say_so(name: str) -> None:
    for personal in (False, True):
        method = build(algorithm_class(name), {"personal": personal})
        check_declaration(method)
        assert method.traits.personalizes is personal


def test_all_mistakes_are_told_together() -> None:
    own = {"traits": Traits(probes=True), "work": lambda self: None, "review": None}
    with pytest.raises(ConfigError, match="is_probe") as caught:
        check_declaration(type("Mixed", (NearestMean,), own)())
    assert len(caught.value.problems) == 3


def test_without_traits_nothing_else_is_asked() -> None:
    (problem,) = declaration_problems(type("Old", (NearestMean,), {"traits": None})())
    assert "Old.traits is NoneType, not Traits; write traits = Traits(rounds=1)" in problem


@dataclass(frozen=True)
class Part:
    """Something with an opinion."""

    name: str

    def review(self, task: Task) -> Review:
        return Review((f"{self.name} is wrong",), (f"{self.name} is odd",))


@dataclass(frozen=True)
class Whole:
    """Two parts, and a number that has no opinion."""

    first: Part = field(default=Part("first"))
    number: int = 3
    second: Part = field(default=Part("second"))


def test_parts_are_asked_in_order() -> None:
    found = review_of_parts(Whole(), federation.task())
    assert found == Review(("first is wrong", "second is wrong"), ("first is odd", "second is odd"))
