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
from fedcord.contract.compare import difference
from fedcord.contract.expectations import Expectations, Identity, Limit
from fedcord.core.contract import Algorithm, ServerState, Update
from fedcord.core.params import build
from fedcord.core.tensors import select

QUICK = LocalSGD(batch_size=8, lr=0.1)
"""Local training that learns a tiny task in a few rounds; used wherever there is a `local`."""

LONG = LocalSGD(epochs=12, batch_size=8, lr=0.1)
"""Local training that learns a tiny task in the only round of a one-shot method."""

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


def _kept_as(prefix: str) -> Identity:
    """One client alone: the model under `prefix` in the result is the one it sent."""

    def identity(before: ServerState, update: Update, after: ServerState) -> str | None:
        return difference(select(after.result, prefix), select(update.tensors, "model"))

    return identity


def _one_shot(prefix: str | None = None, learns: float = 0.8) -> Callable[[], Expectations]:
    identity = None if prefix is None else _kept_as(prefix)
    return lambda: Expectations(is_random=True, identity=identity, learns_at_least=learns)


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "afl": Row({"features": NARROW}, _random),
        "afl-aa": Row({"features": NARROW}, _afl_aa),
        "apfl": Row({"features": NARROW}, _random),
        "deepafl": Row({"features": NARROW, "blocks": 2, "width": 16}, _random),
        "fedacnnl": Row({"layers": SHALLOW}, _random),
        "ensemble": Row({"local": LONG}, _one_shot()),
        "fedavg": Row(expectations=_random),
        "fedavg-oneshot": Row({"local": LONG}, _one_shot("fused")),
        "fedetf": Row({"local": LONG}, _one_shot("fused.model")),
        "fedhip": Row({"features": NARROW}, _random),
        "fedproto-oneshot": Row({"local": LONG}, _one_shot()),
        "fedprox": Row(expectations=_fedprox),
        "otfusion": Row({"local": LONG}, _one_shot("fused")),
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
