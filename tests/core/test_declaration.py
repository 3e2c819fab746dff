"""Traits and verbs are held together, and parts of an algorithm are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.core.contract import Review, Traits
from fedcord.core.declaration import ANNOUNCED, check_declaration, declaration_problems
from fedcord.core.errors import ConfigError
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
    announced: Mapping[str, bool] = {trait: True}
    method = type("Boaster", (NearestMean,), {"traits": Traits(rounds=1, **announced)})
    with pytest.raises(ConfigError, match=f"announces the trait {trait} but has no verb {verb};"):
        check_declaration(method())


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
