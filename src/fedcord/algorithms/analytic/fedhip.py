"""A closed-form model per client that weighs its own samples more than everybody's.

Reference: Tang et al., "FedHiP: Heterogeneity-Invariant Personalized Federated Learning Through
Closed-Form Solutions", 2025 (arXiv 2508.04470).

Travels: up the sums Σ f f' and Σ f y', D(D+1)/2 + DC numbers; after the round down the regularised
sum S and the global model W (or, with `personalize_at=server`, only the client's own model).
Stays: samples, features, and the personal model.

| paper | here |
|---|---|
| F_k, Y_k | features and one-hot labels of client k |
| β | `client_ridge`; by default one `ridge` on the total instead |
| S_K = Σ F_k'F_k + λI | `metric.gram`, one triangle |
| M_K | `head.weight` of the result |
| P_k, α | `head.weight` of the client's memory, `alpha` |

    P_k = argmin ||F P − Y||² + λ||P||² + α ||F_k P − Y_k||²
        = W + α (S + αF_k'F_k)⁻¹ F_k'(Y_k − F_k W)

P_k does not change when the other clients' samples are redistributed among any number of clients.

Deviations: the third phase is derived from the paper's description. The server adds instead of
recursing. The paper's ridge Kβ makes models depend on the number of clients; here the ridge is
independent of it unless `client_ridge` is set. α is chosen by exact leave-one-out.

Limits: alpha = 0 is `afl`; alpha → ∞ with `local_ridge` is the client's own ridge model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import (
    WEIGHT,
    SolvesFromSums,
    aligned,
    solve_stats,
    why_not_exact,
)
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import STATS, add_messages, summed_stats
from fedcord.algorithms.analytic.wire import FORMATS, decode_stats
from fedcord.core.contract import (
    ClientId,
    Combination,
    Env,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, select
from fedcord.ops.anchored import AnchoredPath
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.symmetric import diagonal_places, unpack

METRIC, COUNT = "metric.gram", "metric.count"
PERSONAL, PERSONAL_CLIENT = "personal.weight", "personal.client"
ALPHA = "head.alpha"
GRIDS = {
    "relative": (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    "additive": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "convex": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99),
}
"""Values leave-one-out tries, in each meaning of `alpha`."""


@dataclass(frozen=True)
class FedHiP(SolvesFromSums):
    """Heterogeneity-invariant personal models."""

    alpha: float | str = param(
        "loo", "weight of own samples (paper: α) >= 0, or loo", at_least=0, choices=("loo",)
    )
    alpha_mode: str = param(
        "relative",
        "relative: 1 weighs own samples as much as the federation; additive: as in the paper; "
        "convex: share of own samples, below 1",
        choices=("relative", "additive", "convex"),
    )
    ridge: float | str = param("gcv", "λ > 0 on the total, or gcv", above=0, choices=("gcv",))
    client_ridge: float | None = param(
        None, "ridge per client (paper: β), which replaces `ridge` by K·β", above=0
    )
    local_ridge: float = param(0.0, "ridge on own samples (paper: C_k for F_k'F_k)", at_least=0)
    personalize_at: str = param(
        "client", "who computes personal models", choices=("client", "server")
    )
    features: FeatureMap = param(FeatureMap(), "what is summed")
    wire: str = param("packed64", "how sums travel", choices=FORMATS)

    def __post_init__(self) -> None:
        check_params(self)
        problems = []
        if self.alpha == "loo" and self.personalize_at == "server":
            problems.append(
                "alpha = 'loo' needs the client's samples; set alpha to a number, or "
                "personalize_at=client."
            )
        if self.alpha == "loo" and self.local_ridge > 0:
            problems.append("alpha = 'loo' and local_ridge > 0: set alpha to a number.")
        if self.alpha_mode == "convex" and not isinstance(self.alpha, str) and self.alpha >= 1:
            problems.append(f"alpha = {self.alpha}: must be below 1 when alpha_mode is convex.")
        if problems:
            raise ConfigError(problems)

    @property
    def traits(self) -> Traits:
        """Those of sums, and a model per client."""
        return replace(self.traits_of_sums(), personalizes=True)

    def needs_only(self, env: Env) -> Combination | None:
        """Sums, unless the server makes personal models from every client's own."""
        return "sum" if self.personalize_at == "client" else None

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Add up, solve once, and keep S for personalisation."""
        messages: dict[ClientId, Update] = {}
        heard = _noted(updates, messages) if self.personalize_at == "server" else updates
        sums = add_messages({}, heard, self.agreed_tag(state.shared, env), env)
        result = self.result_of(sums)
        if messages:
            models = [self._from_stats(result, self._decoded(u)) for u in messages.values()]
            result |= {PERSONAL: torch.stack(models), PERSONAL_CLIENT: torch.tensor([*messages])}
        return state.next(state.shared, sums, result)

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """Global model and S."""
        stats = summed_stats(sums, self.wire)
        fixed = self.client_ridge
        ridge = self.ridge if fixed is None else fixed * len(sums["ledger.client"])
        solved = solve_stats(stats, ridge, self.wire)
        metric = stats.gram.clone()
        metric[diagonal_places(stats.num_features)] += solved.report.ridge
        count = torch.tensor(stats.count)
        return {**solved.tensors(), METRIC: metric, COUNT: count}

    def why_not_forget(self) -> str | None:
        """Personal models made by the server need every client's own message again."""
        at_server = self.personalize_at == "server"
        if at_server:
            return "personal models were made by the server"
        return why_not_exact(self.traits)

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """P_k and the α it was made with; `shared` is the server's whole result."""
        if PERSONAL in shared:
            heard = shared[PERSONAL_CLIENT].tolist()
            # a client that was not heard has the global model
            known = env.client in heard
            weight = shared[PERSONAL][heard.index(env.client)] if known else shared[WEIGHT]
            return {WEIGHT: weight.clone()}
        shared = {**shared, WEIGHT: aligned(shared, WEIGHT)}
        features = self.features.all(data.train, shared, env)
        targets = F.one_hot(data.train.labels, env.task.num_classes).to(torch.float64)
        alpha, weight = self.personal_model(shared, features, targets)
        return {WEIGHT: weight, ALPHA: torch.tensor(alpha, dtype=torch.float64)}

    def personal_model(
        self, result: Tensors, features: Tensor, targets: Tensor
    ) -> tuple[float, Tensor]:
        """(α in additive meaning, P [D, C]) of a client with features [N, D], targets [N, C]."""
        if len(features) == 0:
            return 0.0, result[WEIGHT].clone()
        count, total = len(features), int(result[COUNT])
        if self.local_ridge > 0:
            alpha = self.additive(float(self.alpha), count, total)
            gram, moment = features.T @ features, features.T @ targets
            return alpha, self._solved(result, gram, moment, alpha)
        path = AnchoredPath.of(features, targets, result[WEIGHT], unpack(result[METRIC]))
        if self.alpha == "loo":
            grid = [self.additive(a, count, total) for a in GRIDS[self.alpha_mode]]
            return path.choose(grid, targets, contains_own=True)
        alpha = self.additive(float(self.alpha), count, total)
        return alpha, path.model(alpha)

    def additive(self, alpha: float, count: int, total: int) -> float:
        """α as in the paper, from the value in this object's meaning.

        Args:
            alpha: in the meaning of `alpha_mode`.
            count: the client's samples.
            total: everybody's samples.
        """
        if self.alpha_mode == "relative":
            return alpha * total / max(count, 1)
        return alpha / (1 - alpha) if self.alpha_mode == "convex" else alpha

    def _from_stats(self, result: Tensors, own: SufficientStats) -> Tensor:
        alpha = self.additive(float(self.alpha), own.count, int(result[COUNT]))
        return self._solved(result, own.gram_matrix(), own.moment, alpha)

    def _solved(self, result: Tensors, gram: Tensor, moment: Tensor, alpha: float) -> Tensor:
        metric, weight = unpack(result[METRIC]), result[WEIGHT]
        left = metric + alpha * gram
        left.diagonal().add_(alpha * self.local_ridge)
        return solve_ridge(left, metric @ weight + alpha * moment, 0.0)[0]

    def _decoded(self, update: Update) -> SufficientStats:
        return decode_stats(select(update.tensors, STATS), self.wire)


def _noted(updates: Updates, messages: dict[ClientId, Update]) -> Updates:
    for client, update in updates:
        messages[client] = update
        yield client, update
