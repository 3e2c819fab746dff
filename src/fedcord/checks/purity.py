"""Verbs are pure: they draw only from their own streams and leave what they are given alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

from fedcord.checks.compare import difference
from fedcord.checks.global_randomness import global_randomness
from fedcord.checks.subject import SEED, Subject
from fedcord.core.tensors import hash_tensors

T = TypeVar("T")


def same_outputs(subject: Subject) -> Iterator[str]:
    """Equal inputs give equal outputs, and only the seed makes chance."""
    algorithm, watch = subject.fresh(), _RandomnessWatch()
    env, other_env = subject.env(), subject.env(seed=SEED + 1)
    first = subject.walk(algorithm, env=env, around=watch).tensors()
    other = subject.walk(algorithm, env=other_env).tensors()  # so that anything hidden moves on
    again = subject.walk(algorithm, env=subject.env()).tensors()
    yield from watch.found
    gap = difference(again, first)
    if gap is not None:
        yield (
            f"the same inputs gave other outputs the second time: {gap}; keep nothing on the "
            "object, and draw only from env.generator."
        )
    must_differ = subject.expectations.is_random
    if must_differ is None:
        must_differ = bool(env.asked)
    if must_differ and difference(other, first) is None:
        streams = ", ".join(sorted(env.asked)) or "none"
        yield (
            f"another seed changed nothing (streams asked for: {streams}); draw from "
            "env.generator, or state is_random=False."
        )


def inputs_unchanged(subject: Subject) -> Iterator[str]:
    """Nothing that is passed in changes, and nothing that was returned changes later."""
    watch = _InputWatch()
    subject.walk(around=watch)
    yield from watch.found
    for place, result, fingerprint in watch.returned:
        if _fingerprint(result) != fingerprint:
            yield (
                f"what {place} returned was changed by a later call; return copies, such as "
                "fedcord.core.task.tensors_of makes."
            )


@dataclass
class _RandomnessWatch:
    """Notes calls that move a global generator."""

    found: list[str] = field(default_factory=list)

    def __call__(self, place: str, inputs: Mapping[str, Any], call: Callable[[], T]) -> T:
        before = global_randomness()
        result = call()
        for library, state in global_randomness().items():
            if state != before[library]:
                self.found.append(
                    f"{place} changed the global random state of {library}; draw from "
                    "env.generator and seed nothing."
                )
        return result


@dataclass
class _InputWatch:
    """Notes calls that change their arguments, and keeps what they returned."""

    found: list[str] = field(default_factory=list)
    returned: list[tuple[str, Any, str]] = field(default_factory=list)

    def __call__(self, place: str, inputs: Mapping[str, Any], call: Callable[[], T]) -> T:
        before = {name: _fingerprint(value) for name, value in inputs.items()}
        result = call()
        for name, value in inputs.items():
            if _fingerprint(value) != before[name]:
                self.found.append(f"{place} changed its input '{name}'; work on copies.")
        self.returned.append((place, result, _fingerprint(result)))
        return result


def _fingerprint(value: object) -> str:
    """A text that changes when any tensor or number inside does."""
    if isinstance(value, Tensor):
        return f"{hash_tensors({'': value})} {value.requires_grad}"
    if dataclasses.is_dataclass(value):
        return _fingerprint({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return str({key: _fingerprint(part) for key, part in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, str):
        return str([_fingerprint(part) for part in value])
    return repr(value)
