"""A global closed-form model, and at every client a second one for what it left unexplained.

Reference: Fan et al., "APFL: Analytic Personalized Federated Learning via Dual-Stream Least
Squares", 2025 (arXiv 2508.10732).

Travels: up the sums of the global features, D(D+1)/2 + DC numbers; after the round down the global
model. Stays: samples and the refinement.

| paper | here |
|---|---|
| primary stream Φ, W | `features`, `head.weight` of the result |
| refinement stream Ψ_k, Δ_k | `refinement`, `refine.weight` of the client's memory |

    Δ_k = argmin ||Y_k − Φ_k W − Ψ_k Δ||² + μ||Δ||²      prediction φW + η·ψΔ_k

Deviations: the formulas are derived from the paper's description. μ is chosen by leave-one-out with
W held fixed. The refinement uses random Fourier features beside the global features.

Limits: refinement_weight = 0 is `afl`. With refinement features equal to the global ones and μI
replaced by S/α it would be `fedhip`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import (
    SEEN,
    WEIGHT,
    SolvesFromSums,
    aligned,
    linear_predictor,
    mask_unseen,
    nothing_solved,
)
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.own_ridge import own_ridge
from fedcord.algorithms.analytic.wire import FORMATS
from fedcord.core.contract import Combination, Env, Predictor, Review, ServerState, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors

REFINE, REFINE_RIDGE = "refine.weight", "refine.ridge"


@dataclass(frozen=True)
class APFL(SolvesFromSums):
    """Analytic personalised federated learning in two streams."""

    ridge: float | str = param("gcv", "global λ >= 0, or gcv", at_least=0, choices=("gcv",))
    refine_ridge: float | str = param(
        "loo", "μ > 0 of the refinement, or loo", above=0, choices=("loo",)
    )
    refinement_weight: float = param(
        1.0, "η, how much the refinement counts", at_least=0, space=(0.0, 2.0)
    )
    features: FeatureMap = param(FeatureMap(), "features of the global model")
    refinement: FeatureMap = param(
        FeatureMap(expansion="rff", width=256), "features of the refinement"
    )
    wire: str = param("packed64", "how sums travel", choices=FORMATS)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Features stand for inputs where neither stream looks at inputs themselves."""
        both = (self.features, self.refinement)
        through = all(stream.looks_through_network for stream in both)
        return replace(self.traits_of_sums(), looks_through_network=through, personalizes=True)

    def needs_only(self, env: Env) -> Combination | None:
        """The sum of everybody's sums is all that is solved from."""
        return "sum"

    def review(self, task: Task) -> Review:
        """What either stream needs."""
        streams = self.features.review(task) + self.refinement.review(task)
        return Review(tuple(dict.fromkeys(streams.errors)))

    def init(self, env: Env) -> ServerState:
        """Nothing known yet; either stream may need the network."""
        shared = {**self.refinement.shared(env), **self.features.shared(env)}
        return ServerState(shared, result=nothing_solved(self.features, env))

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's own model of the global model's errors."""
        size, classes = self.refinement.num_features(env.task), env.task.num_classes
        start = torch.zeros(size, classes, dtype=torch.float64)
        if len(data.train) == 0:
            return {REFINE: start}
        features = self.refinement.all(data.train, shared, env)
        targets = F.one_hot(data.train.labels, classes).to(torch.float64)
        errors = targets - self.features.all(data.train, shared, env) @ aligned(shared, WEIGHT)
        ridge, weight = own_ridge(features, errors, targets, self.refine_ridge)
        return {REFINE: weight, REFINE_RIDGE: torch.tensor(ridge, dtype=torch.float64)}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C] of the global model, refined where the client has a refinement."""
        features, weight = self.features.mapping(shared, env), aligned(shared, WEIGHT)
        seen = shared[SEEN]
        if REFINE not in memory:
            return linear_predictor(features, weight, seen)
        second, own = self.refinement.mapping(shared, env), aligned(memory, REFINE)

        def scores(inputs: Tensor) -> Tensor:
            refinement = self.refinement_weight * (second(inputs) @ own)
            return mask_unseen(features(inputs) @ weight + refinement, seen)

        return Predictor(scores)
