"""What an algorithm says of itself: traits and verbs, held together, and what its parts say.

A verb that nobody announced would never be called, and a trait without its verb would fail in the
middle of a run. Both are often one letter away from what was meant, so both are loud.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fedcord.core.contract import Algorithm, Review, Traits
from fedcord.core.errors import ConfigError
from fedcord.core.task import Task

ANNOUNCED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "personalizes": ("personalize",),
        "stacks": ("can_stack", "client_updates"),
        "shares_work": ("work",),
        "probes": ("is_probe",),
        "observes": ("observations",),
        "holds_sums": (
            *("agreed_tag", "summed_rows", "stats_of", "rounding", "result_of"),
            "why_not_forget",
        ),
        "holds_encoders": ("encoders_of", "drop_encoder"),
        "sums_suffice": ("needs_only",),
        "examines": ("objection",),
        "accounts_privacy": ("privacy_spent",),
    }
)
"""Verbs that not all algorithms have, by the trait that announces them."""


def check_declaration(algorithm: Algorithm) -> None:
    """Refuse an algorithm whose traits and verbs do not belong together.

    Raises:
        ConfigError: with everything that is wrong, by the names of traits and verbs.
    """
    problems = declaration_problems(algorithm)
    if problems:
        raise ConfigError(problems)


def declaration_problems(algorithm: object) -> list[str]:
    """What is wrong with the declaration, in words; empty when nothing is."""
    name = type(algorithm).__qualname__
    traits = getattr(algorithm, "traits", None)
    if not isinstance(traits, Traits):
        return [
            f"{name}.traits is {type(traits).__name__}, not Traits; write traits = "
            "Traits(rounds=1), or a property that returns one."
        ]
    problems = []
    if any(field.name == "traits" for field in dataclasses.fields(algorithm)):  # type: ignore[arg-type]
        problems.append(
            f"{name}.traits is a field, which a user could set like a parameter; write "
            "traits = Traits(...) without a type, or a property."
        )
    if not callable(getattr(algorithm, "review", None)):
        problems.append(f"{name} has no verb review; write one that returns Review().")
    for trait, verbs in ANNOUNCED.items():
        announced = getattr(traits, trait)
        for verb in verbs:
            present = callable(getattr(algorithm, verb, None))
            if announced and not present:
                problems.append(
                    f"{name} announces the trait {trait} but has no verb {verb}; write "
                    f"{verb}, or leave {trait} out of its traits."
                )
            elif present and announced is None:
                problems.append(
                    f"{name} has the verb {verb} but does not announce the trait {trait}, so it "
                    f"would never be called; write Traits({trait}=True), or rename {verb}."
                )
    settled = traits.settles_first
    if settled is not None and not (traits.rounds and 0 <= settled[0] < traits.rounds):
        problems.append(
            f"{name} says that {settled[0]} rounds come first of {traits.rounds}; leave at least "
            "one round after those of settles_first."
        )
    return problems


def review_of_parts(algorithm: Any, task: Task) -> Review:
    """The reviews of all fields that can give one, such as `LocalSGD`, in order."""
    found = Review()
    for field in dataclasses.fields(algorithm):
        part = getattr(algorithm, field.name)
        if hasattr(part, "review"):
            found += part.review(task)
    return found
