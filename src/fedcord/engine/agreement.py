"""What server and nodes must have in common, and what a node tells of itself beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedcord.core.version import __version__
from fedcord.engine.requests import count


@dataclass(frozen=True)
class Agreement:
    """What server and nodes must have in common before a tensor passes.

    Attributes:
        configuration: hash of the run's settings.
        task: shapes, classes and constants of preparation, as plain values.
        version: of fedcord.
        secure: share of a round's clients that must stay for their sum to be read, where rounds
            are masked; None: updates travel in the open. Part of the configuration.
    """

    configuration: str = ""
    task: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__
    secure: float | None = None

    def differences(self, other: Agreement) -> list[str]:
        """In what another one differs, in words."""
        mine = {"version": self.version, "configuration": self.configuration, **self.task}
        theirs = {"version": other.version, "configuration": other.configuration, **other.task}
        return [
            f"{name} is {theirs.get(name)!r} there and {mine.get(name)!r} here"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]


@dataclass(frozen=True)
class Introduction:
    """What a node tells of itself when it greets, beside what must be agreed.

    Attributes:
        class_counts: training examples of each class; None: it keeps them to itself.
        test_counts: likewise of its own test part.
        tells_classes: whether its tests say how many examples of each class they had.
        gives_memory: whether it hands out what its clients keep, as simulations do.
    """

    class_counts: tuple[int, ...] | None = None
    test_counts: tuple[int, ...] | None = None
    tells_classes: bool = True
    gives_memory: bool = True

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; the inverse of `from_plain`."""
        return dict(self.__dict__)

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Introduction:
        """What `plain` was made from; a ValueError or KeyError where it is something else."""
        classes, tests = (
            None if values[name] is None else tuple(map(count, values[name]))
            for name in ("class_counts", "test_counts")
        )
        told = values["tells_classes"] is True, values["gives_memory"] is True
        return Introduction(classes, tests, *told)
