"""How each registered algorithm is set up for the tiny tasks, and what it promises there.

A new algorithm needs a row only where the defaults do not suit it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.afl_aa import AFLByModels
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.layerwise import Layers
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.contract.expectations import Expectations, Limit
from fedcord.core.contract import Algorithm
from fedcord.core.params import build

QUICK = LocalSGD(batch_size=8, lr=0.1)
"""Local training that learns a tiny task in a few rounds; used wherever there is a `local`."""

SHALLOW = Layers(channels=(8,), kernel=3)
"""One hidden layer, which is enough for the tiny tasks."""

NARROW = FeatureMap(width=24)
"""Few random features, which are enough for the tiny tasks."""


@dataclass(frozen=True)
class Row:
    """What is special about one algorithm.

    Attributes:
        params: values beside its preset.
        expectations: made when asked for, since limits hold algorithms.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    expectations: Callable[[], Expectations] = Expectations


def _fedprox() -> Expectations:
    limit = Limit(
        "proximal_weight = 0 is FedAvg",
        FedProx(proximal_weight=0.0, local=QUICK),
        FedAvg(local=QUICK),
        unlike=FedProx(proximal_weight=1.0, local=QUICK),
    )
    return Expectations(is_random=True, limits=(limit,))


def _afl_aa() -> Expectations:
    by_models = AFLByModels(client_ridge=0.5, remove_ridge=False, features=NARROW)
    limit = Limit(
        "without removing the four clients' ridges it is AFL with their sum",
        by_models,
        AFL(ridge=2.0, features=NARROW),
        unlike=AFLByModels(client_ridge=0.5, features=NARROW),
        tensors="head.weight",
        tolerance=1e-8,
    )
    return Expectations(is_random=True, limits=(limit,))


def _random() -> Expectations:
    return Expectations(is_random=True)


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "afl": Row({"features": NARROW}, _random),
        "afl-aa": Row({"features": NARROW}, _afl_aa),
        "apfl": Row({"features": NARROW}, _random),
        "deepafl": Row({"features": NARROW, "blocks": 2, "width": 16}, _random),
        "fedacnnl": Row({"layers": SHALLOW}, _random),
        "fedavg": Row(expectations=_random),
        "fedhip": Row({"features": NARROW}, _random),
        "fedprox": Row(expectations=_fedprox),
        "pfedacnnl": Row({"layers": SHALLOW}, _random),
        "safle": Row({"bits": 2, "groups": 12, "thresholds": "fixed"}, _random),
    }
)
"""Rows by the name in the registry."""


def registered(name: str) -> tuple[Algorithm, Expectations]:
    """A registered algorithm with small-task settings, and what to expect of it."""
    cls, row = algorithm_class(name), ROWS.get(name, Row())
    algorithm = build(cls, ALGORITHMS[name].preset)
    values: dict[str, Any] = {}
    if isinstance(getattr(algorithm, "local", None), LocalSGD):
        values["local"] = QUICK
    values.update(row.params)
    tuned: Algorithm = dataclasses.replace(algorithm, **values)
    return tuned, row.expectations()
