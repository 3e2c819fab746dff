"""The one table of algorithms: a name, where its class is, and what it does.

Classes are named by their place and imported when used, so that listing them needs no PyTorch.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fedcord.core.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class AlgorithmInfo:
    """One row of the table.

    Attributes:
        path: `module:Class`.
        summary: one line.
        family: averaging, prototype, oneshot, analytic or own.
        preset: parameter values this name stands for, as nested plain values.
    """

    path: str
    summary: str
    family: str
    preset: Mapping[str, Any] = field(default_factory=dict)


ALGORITHMS: Mapping[str, AlgorithmInfo] = MappingProxyType(
    {
        "fedavg": AlgorithmInfo(
            "fedcord.algorithms.averaging.fedavg:FedAvg",
            "clients train the global model, the server averages (McMahan et al. 2017)",
            "averaging",
        ),
        "fedprox": AlgorithmInfo(
            "fedcord.algorithms.averaging.fedprox:FedProx",
            "FedAvg with a pull towards the global model (Li et al. 2020)",
            "averaging",
        ),
    }
)


def algorithm_class(name: str) -> type[Any]:
    """The class a name stands for, or a ConfigError with the nearest known name."""
    if name not in ALGORITHMS:
        raise ConfigError(unknown_name("algorithm", name, ALGORITHMS))
    module, _, attribute = ALGORITHMS[name].path.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), attribute)
    return cls
