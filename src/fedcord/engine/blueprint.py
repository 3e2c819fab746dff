"""An algorithm and its task as plain values, to be rebuilt in another process or per call."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcord.core.contract import Algorithm
from fedcord.core.errors import ConfigError
from fedcord.core.params import build, plain
from fedcord.core.task import Task


def is_importable(module: str, attribute: str) -> bool:
    """Whether another process can find a class: not where a script or a function defines it."""
    return module != "__main__" and "<locals>" not in attribute


@dataclass(frozen=True)
class Blueprint:
    """Where the classes are and the values they are built from.

    Attributes:
        algorithm: `module:Class` of a dataclass with parameters.
        params: its values, nested and plain.
        task_factory: `module:function` that takes `task_values` and returns a Task.
        task_values: plain values.
        attack: of some simulated clients, as plain values; None: all are honest.
    """

    algorithm: str
    params: Mapping[str, Any]
    task_factory: str
    task_values: Mapping[str, Any]
    attack: Mapping[str, Any] | None = None

    @staticmethod
    def of(algorithm: Algorithm, task_factory: str, task_values: Mapping[str, Any]) -> Blueprint:
        """The blueprint of an existing algorithm."""
        cls = type(algorithm)
        path = f"{cls.__module__}:{cls.__qualname__}"
        return Blueprint(path, plain(algorithm), task_factory, task_values)

    def check_importable(self) -> None:
        """Refuse classes that another process could not find."""
        module, _, attribute = self.algorithm.partition(":")
        if not is_importable(module, attribute):
            raise ConfigError(
                f"{attribute} is defined in a script, notebook or function, where other processes "
                "cannot import it; move it to a module of its own, or use the sequential engine."
            )

    def build_algorithm(self) -> Algorithm:
        """A new algorithm object."""
        algorithm: Algorithm = build(_resolve(self.algorithm), self.params)
        return algorithm

    def build_task(self) -> Task:
        """A new task object."""
        task: Task = _resolve(self.task_factory)(self.task_values)
        return task

    def to_json(self) -> str:
        """The values as one line."""
        return json.dumps(self.__dict__, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Blueprint:
        """The inverse of `to_json`."""
        return Blueprint(**json.loads(text))


def _resolve(path: str) -> Any:
    module, _, attribute = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    return found
