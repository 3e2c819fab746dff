"""Every client alone: its own ridge regression on fixed features, and nothing shared.

Reference: none; it is what personalised methods must beat to be worth their exchange.

Travels: up the client's class counts, C integers, from which the server knows which class is the
most frequent; down nothing, unless the feature map is a network that is not frozen. Stays:
everything else.

| symbol | here |
|---|---|
| X_k, Y_k | features and one-hot labels of client k |
| λ_k | `ridge`; chosen by the client's own exact leave-one-out |
| W_k | `head.weight` of the client's memory |

    W_k = argmin ||X_k W − Y_k||² + λ_k ||W||²

Deviations: none. The server's test is the mean over clients, each with its own model; without a
model, scores are the federation's class shares.

Limits: one client that holds everything is `afl` with the same ridge. It is `apfl` without its
global stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import SEEN, WEIGHT, aligned, linear_predictor
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.own_ridge import own_ridge
from fedcord.core.contract import (
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

COUNT, RIDGE = "class_count", "head.ridge"


@dataclass(frozen=True)
class LocalRidge:
    """A ridge regression per client."""

    ridge: float | str = param("loo", "λ > 0 at every client, or loo", above=0, choices=("loo",))
    features: FeatureMap = param(FeatureMap(), "what is fitted on")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round, to count classes; there is no common model."""
        through = self.features.looks_through_network
        return Traits(rounds=1, keeps_own_models=True, looks_through_network=through)

    def review(self, task: Task) -> Review:
        """What features need."""
        return self.features.review(task)

    def init(self, env: Env) -> ServerState:
        """Nothing known yet."""
        count = torch.zeros(env.task.num_classes, dtype=torch.int64)
        return ServerState(shared=self.features.shared(env), result={COUNT: count})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Class counts."""
        return {COUNT: TensorSpec((env.task.num_classes,), torch.int64, counts=True)}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Count, and keep the client's own model; a client without samples has none."""
        labels, classes = data.train.labels, env.task.num_classes
        update = Update({COUNT: torch.bincount(labels, minlength=classes)}, weight=len(labels))
        if len(labels) == 0:
            return ClientResult(update)
        features = self.features.all(data.train, shared, env)
        targets = F.one_hot(labels, classes).to(torch.float64)
        ridge, weight = own_ridge(features, targets, targets, self.ridge)
        chosen = torch.tensor(ridge, dtype=torch.float64)
        return ClientResult(update, {WEIGHT: weight, SEEN: targets.any(0), RIDGE: chosen})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Add up the counts."""
        count = torch.stack([update.tensors[COUNT] for _, update in updates]).sum(0)
        return state.next(state.shared, result={COUNT: count})

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C] of the client's model; without one, the class shares."""
        if WEIGHT not in memory:
            share = shared[COUNT] / shared[COUNT].sum().clamp(min=1).to(torch.float64)
            return Predictor(lambda inputs: share.expand(inputs.shape[0], -1))
        features, weight = self.features.mapping(shared, env), aligned(memory, WEIGHT)
        return linear_predictor(features, weight, memory[SEEN])
