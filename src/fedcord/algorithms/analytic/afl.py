"""One round, one pass, no gradients: the least-squares classifier of everybody's features at once.

Reference: He et al., "AFL: A Single-Round Analytic Approach for Federated Learning with Pre-trained
Models", CVPR 2025 (arXiv 2405.16240).

Travels: up the sums Σ x x' and Σ x y' of the client's features, D(D+1)/2 + DC numbers, with class
counts; down nothing, unless the feature map is a network that is not frozen. Stays: samples and
features.

| paper | here |
|---|---|
| X_k, Y_k | features and one-hot labels of client k |
| C_k = X_k'X_k | `stats.gram`, one triangle |
| X_k'Y_k | `stats.moment`; the paper sends W_k instead, which tells the same |
| γ, RI | not needed; see afl-aa |

Deviations: the paper's server joins clients' models pairwise by its absolute aggregation law and
then removes their ridge. That is an algebraic rewriting of two sums, so the sums are sent, added
and solved once (`afl-aa` has the paper's form). The paper has no final ridge; here it is chosen by
generalised cross-validation, and `ridge=0` gives the paper's solution, of smallest norm where it is
not unique. The paper needs a pre-trained network; without one, random features of the pixels are
used. A constant feature is appended. With `balanced`, a first round of class counts makes every
class weigh the same; with `privacy`, noise hides single samples; with `wire=rfactor`, triangular
factors are merged instead of sums added, for features so correlated that squaring their condition
hurts.

Limits: one client is ordinary ridge regression, and so is any number of them. ridge = 0,
features.expansion=none, features.bias=false, features.unit=false is the paper's classifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.analytic.closed_form import (
    Solved,
    SolvesFromSums,
    solve_private,
    sums_spec,
    why_not_exact,
)
from fedcord.algorithms.analytic.factor_messages import (
    factor_spec,
    factor_update,
    merged,
    solve_factor,
)
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.hiding import claims, misfits, why_not_forget
from fedcord.algorithms.analytic.privacy import Privacy, add_noise
from fedcord.algorithms.analytic.stats import StatsAccumulator
from fedcord.algorithms.analytic.sum_messages import STATS, add_messages, stats_update
from fedcord.algorithms.analytic.wire import FORMATS, RFACTOR
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

COUNT = f"{STATS}.class_count"
CLASS_WEIGHT = "class_weight"


@dataclass(frozen=True)
class AFL(SolvesFromSums):
    """Analytic federated learning by sums."""

    ridge: float | str = param("gcv", "λ >= 0, or gcv", at_least=0, choices=("gcv",))
    features: FeatureMap = param(FeatureMap(), "what is summed")
    wire: str = param("packed64", "how sums travel", choices=(*FORMATS, RFACTOR))
    balanced: bool = param(False, "give every class the same weight, in a second round")
    privacy: Privacy = param(Privacy(), "noise that hides single samples")

    def __post_init__(self) -> None:
        check_params(self)
        problems = misfits(self.privacy, self.balanced)
        if self.is_factored and self.privacy.is_on:
            problems.append(
                f"wire = {RFACTOR} and privacy.epsilon: noise is calibrated to sums; choose one."
            )
        if problems:
            raise ConfigError(problems)

    @property
    def is_factored(self) -> bool:
        """Whether triangular factors travel instead of sums."""
        return self.wire == RFACTOR

    @property
    def traits(self) -> Traits:
        """One round; two with `balanced`. Sums add up, unless every client adds noise.

        Factors do not: the server must see each.
        """
        return Traits(
            rounds=2 if self.balanced else 1,
            additive=not (self.privacy.client_noise > 0 or self.is_factored),
            looks_through_network=self.features.looks_through_network,
            holds_sums=True,
            sums_suffice=True,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """Sums of class counts and of statistics; factors must be merged one by one."""
        return None if self.is_factored and not self._is_counting(env) else "sum"

    def review(self, task: Task) -> Review:
        """What features need, what may be claimed, and what it rests on."""
        return self.features.review(task) + Review(notes=claims(self.privacy))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums; class counts alone in the first round of `balanced`."""
        if self._is_counting(env):
            return {COUNT: TensorSpec((env.task.num_classes,), torch.int64, counts=True)}
        if self.is_factored:
            return factor_spec(self.features.num_features(env.task), env.task.num_classes)
        return sums_spec(self.features, self.wire, env)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass over the samples."""
        classes = env.task.num_classes
        if self._is_counting(env):
            count = torch.bincount(data.train.labels, minlength=classes)
            return ClientResult(Update({COUNT: count}, weight=len(data.train)))
        weight = shared.get(CLASS_WEIGHT)
        if self.is_factored:
            return ClientResult(factor_update(self.features, shared, data.train, env, weight))
        tag, size = self.features.tag(shared, env), self.features.num_features(env.task)
        total = StatsAccumulator(size, classes, tag, weight)
        for rows, labels in self.summed_rows(shared, data.train, env):
            total.add(rows, labels)
        stats = add_noise(total.stats(), self.privacy.client_noise, env.generator("privacy"))
        return ClientResult(stats_update(stats, self.wire))

    def summed_rows(
        self, shared: Tensors, data: Examples, env: Env
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples as (what is summed of them [B, D], labels [B]), shortened for privacy."""
        for rows, labels in self.features.batches(data, shared, env):
            yield self.privacy.clipped(rows), labels

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Add up, or merge, and solve once."""
        if self._is_counting(env):
            count = sum((u.tensors[COUNT] for _, u in updates), torch.zeros(1, dtype=torch.int64))
            weight = balancing_weight(count)
            return state.next({**state.shared, CLASS_WEIGHT: weight})
        if self.is_factored:
            size = self.features.num_features(env.task), env.task.num_classes
            found = merged(updates, size, self.agreed_tag(state.shared, env), env)
            solved = solve_factor(found, self.ridge, state.shared.get(CLASS_WEIGHT))
            return state.next(state.shared, found, solved.tensors())
        sums = add_messages({}, updates, self.agreed_tag(state.shared, env), env)
        if self.privacy.is_on:
            return state.next(state.shared, sums, self._solve_private(sums, env).tensors())
        return state.next(state.shared, sums, self.result_of(sums))

    def why_not_forget(self) -> str | None:
        """Noise cannot be taken back, and class weights belong to the old counts."""
        return why_not_forget(self.privacy, self.balanced) or why_not_exact(self.traits)

    def _solve_private(self, sums: Tensors, env: Env) -> Solved:
        num_clients = len(sums["ledger.client"])
        noise = env.generator("privacy")
        return solve_private(self.stats_of(sums), self.ridge, self.privacy, num_clients, noise)[0]

    def _is_counting(self, env: Env) -> bool:
        return self.balanced and env.round == 0


def balancing_weight(class_count: torch.Tensor) -> torch.Tensor:
    """[C] counts to weights N / (seen classes · count): all seen classes weigh the same."""
    seen = class_count > 0
    weight = class_count.sum() / (seen.sum() * class_count.clamp(min=1)).to(torch.float64)
    return torch.where(seen, weight, 0.0)
