"""Five clients for masked rounds, and two methods that need sums only."""

from __future__ import annotations

from functools import lru_cache

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.engine.population import Population
from tests import federation

SIZES = (40, 25, 12, 60, 30)
SUMS = AFL(ridge=0.5, features=FeatureMap(width=24))
TRAINED = FedAvg(LocalSGD(lr=0.1))


@lru_cache
def people() -> Population:
    return federation.population(sizes=SIZES)
