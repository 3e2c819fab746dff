"""AFL as published: clients send models, which the absolute aggregation law joins.

Reference: He et al., "AFL: A Single-Round Analytic Approach for Federated Learning with Pre-trained
Models", CVPR 2025 (arXiv 2405.16240).

Travels: up C_k + γI as a full matrix and the client's ridge model, D² + DC numbers; down nothing,
unless the feature map is a network that is not frozen. Stays: samples and features.

| paper | here |
|---|---|
| C_k^r = X_k'X_k + γI | `local.gram` |
| Ŵ_k^r = (C_k^r)⁻¹X_k'Y_k | `local.weight` |
| γ | `client_ridge` |
| RI | `remove_ridge` |

The law joins the running (A, W) with the next (B, V). Its two weight matrices are products of five
and six factors with three inverses; I − A⁻¹B(A+B)⁻¹A = (A+B)⁻¹A turns it into

    (A + B) W_new = A W + B V      or      W_new = W + (A + B)⁻¹ B (V − W)

one factorisation per client. Afterwards the K client ridges are taken out: (A − KγI)⁻¹ A W.

Deviations: the simplified law; sums in float64 (the authors' code adds in float32); K is the number
of clients that were joined, not the number configured; where A − KγI is singular the solution of
smallest norm is taken.

Limits: with `remove_ridge` it is `afl` with ridge = 0, whatever γ; without, `afl` with ridge = Kγ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.analytic.closed_form import Solved, SolvesFromSums, aligned, client_stats
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.core.contract import ClientResult, Env, ServerState, Traits, Update, Updates
from fedcord.core.errors import ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.ridge import SolveReport, solve_ridge

GRAM, WEIGHT, COUNT, TAG = "local.gram", "local.weight", "local.class_count", "local.tag"


@dataclass(frozen=True)
class AFLByModels(SolvesFromSums):
    """Analytic federated learning by the published aggregation of local models."""

    client_ridge: float = param(1.0, "ridge of every client's model (paper: γ)", above=0)
    remove_ridge: bool = param(True, "take the clients' ridges out at the end (paper: RI)")
    features: FeatureMap = param(FeatureMap(), "what models are fitted on")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round; models do not add up."""
        through = self.features.looks_through_network
        return Traits(rounds=1, looks_through_network=through, holds_sums=False)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A matrix and a model."""
        size, classes = self.features.num_features(env.task), env.task.num_classes
        return {
            GRAM: TensorSpec((size, size), torch.float64),
            WEIGHT: TensorSpec((size, classes), torch.float64),
            COUNT: TensorSpec((classes,), torch.int64, counts=True),
            TAG: TensorSpec((), torch.int64),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The client's own ridge model."""
        stats = client_stats(self.features, shared, data, env)
        gram = stats.gram_matrix()
        gram.diagonal().add_(self.client_ridge)
        weight, _ = solve_ridge(gram, stats.moment, 0.0)
        tag = torch.tensor(self.features.tag(shared, env))
        tensors = {GRAM: gram, WEIGHT: weight, COUNT: stats.class_count, TAG: tag}
        return ClientResult(Update(tensors, weight=stats.count))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Join clients one by one, then take out their ridges."""
        size, classes = self.features.num_features(env.task), env.task.num_classes
        tag = self.features.tag(state.shared, env)
        gram = torch.zeros(size, size, dtype=torch.float64)
        weight = torch.zeros(size, classes, dtype=torch.float64)
        count = torch.zeros(classes, dtype=torch.int64)
        joined = 0
        for client, update in updates:
            if int(update.tensors[TAG]) != tag:
                raise ProtocolError(
                    f"{env.said(client)} used other features than agreed (tag "
                    f"{int(update.tensors[TAG])}, expected {tag}); give it the same encoder, "
                    "preprocessing, random features and seed."
                )
            gram, weight = join(gram, weight, *(aligned(update.tensors, n) for n in (GRAM, WEIGHT)))
            count = count + update.tensors[COUNT]
            joined += 1
        ridge = joined * self.client_ridge
        report = SolveReport("cholesky", ridge, 0.0, float("nan"), size, 0.0)
        if self.remove_ridge:
            weight, report = without_ridge(gram, weight, ridge)
        private = {"joined.gram": gram, "joined.count": torch.tensor(joined)}
        return state.next(state.shared, private, Solved(weight, count > 0, report).tensors())


def join(
    gram: Tensor, weight: Tensor, other: Tensor, other_weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The absolute aggregation law for (A, W) and (B, V): [D, D] and [D, C] each."""
    total = gram + other
    change, _ = solve_ridge(total, other @ (other_weight - weight), 0.0)
    return total, weight + change


def without_ridge(gram: Tensor, weight: Tensor, ridge: float) -> tuple[Tensor, SolveReport]:
    """(A − ridge·I)⁻¹ A W: the model that the same samples give without a ridge."""
    plain = gram.clone()
    plain.diagonal().sub_(ridge)
    return solve_ridge(plain, gram @ weight, 0.0)
