"""Table look-ups instead of a linear model: groups of thresholded features are jointly one-hot.

Reference: Bacellar et al., "Single-Round Scalable Analytic Federated Learning", CVPR 2026 (arXiv
2512.03336).

Travels: first (unless `thresholds=fixed`) up the sums of features and their squares, down their
mean and deviation; then up integer co-occurrence counts, D(D+1)/2 + DC numbers with D = E·V. Stays:
samples.

| paper | here |
|---|---|
| L buckets per feature, binary overlapping | `levels` thresholds; bit = feature above threshold |
| permutation, E groups of G digits | `groups`, `bits` |
| V = 2^G | table length |
| W_j[idx_j] | row j·V + idx_j of `head.weight` |

Counts are integers, so the sums are the same in every bit for any partition and order.

Deviations: no code is published; thresholds are placed at normal quantiles of each feature. Groups
beyond `groups` are left out, where the paper uses all digits. The ridge is chosen by generalised
cross-validation; one is needed, because every group's one-hot code adds up to 1 and so the Gram
matrix lacks E − 1 directions.

Limits: with groups of one bit it is a linear model of bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import SEEN, WEIGHT, mask_unseen, solve_stats
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats, feature_tag
from fedcord.algorithms.analytic.sum_messages import STATS, add_messages
from fedcord.algorithms.analytic.wire import decode_stats
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.rng import derive_seed
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

MEAN, DEVIATION = "bucket.mean", "bucket.deviation"
COUNTS = ("gram", "moment")
SPREAD = {"spread.sum": 1, "spread.square": 2}


@dataclass(frozen=True)
class SAFLe:
    """Analytic federated learning with sparse embeddings."""

    levels: int = param(4, "thresholds per feature (paper: L)", at_least=1)
    bits: int = param(
        5, "bits per group (paper: G); a table has 2^bits rows", at_least=1, at_most=12
    )
    groups: int = param(48, "most groups (paper: E)", at_least=1)
    thresholds: str = param(
        "sums",
        "sums: around each feature's mean, in a first small round; fixed: around 0",
        choices=("sums", "fixed"),
    )
    ridge: float | str = param("gcv", "λ > 0, or gcv", above=0, choices=("gcv",))
    features: FeatureMap = param(
        FeatureMap(expansion="none", unit=False, bias=False), "what is thresholded"
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round of counts, after one for the thresholds."""
        return Traits(
            rounds=2 if self.thresholds == "sums" else 1,
            additive=True,
            looks_through_network=self.features.looks_through_network,
            holds_sums=True,
            sums_suffice=True,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """Sums of features, then of counts."""
        return "sum"

    def review(self, task: Task) -> Review:
        """What features need."""
        return self.features.review(task)

    def init(self, env: Env) -> ServerState:
        """Nothing known yet."""
        shape = self.num_features(env.task), env.task.num_classes
        seen = torch.zeros(shape[1], dtype=torch.bool)
        nothing = {WEIGHT: torch.zeros(shape, dtype=torch.float64), SEEN: seen}
        return ServerState(shared=self.features.shared(env), result=nothing)

    def num_features(self, task: Task) -> int:
        """D, rows of all tables together."""
        return self._num_groups(task) << self.bits

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Counts; sums of features in the first round."""
        classes = env.task.num_classes
        if self._is_first(env):
            width = self.features.num_features(env.task)
            sums = {name: TensorSpec((width,), torch.float64) for name in SPREAD}
            return {**sums, "spread.count": TensorSpec((), torch.int64, counts=True)}
        spec = SufficientStats.spec(self.num_features(env.task), classes)
        return {
            f"{STATS}.{name}": replace(part, dtype=torch.int32) if name in COUNTS else part
            for name, part in spec.items()
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass over the samples in each round."""
        if self._is_first(env):
            rows = self.features.all(data.train, shared, env)
            tensors = {name: (rows**power).sum(0) for name, power in SPREAD.items()}
            tensors["spread.count"] = torch.tensor(len(rows))
            return ClientResult(Update(tensors, weight=len(rows)))
        size, classes = self.num_features(env.task), env.task.num_classes
        total = StatsAccumulator(size, classes, self.agreed_tag(shared, env))
        for rows, labels in self.summed_rows(shared, data.train, env):
            total.add(rows, labels)
        sums = total.stats().tensors()  # whole numbers, exact in float64
        counts = {n: t.to(torch.int32) if n in COUNTS else t for n, t in sums.items()}
        return ClientResult(Update(prefixed(STATS, counts), weight=len(data.train)))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Place the thresholds; then add counts and solve once."""
        if self._is_first(env):
            total = _added(updates)
            mean = total["spread.sum"] / total["spread.count"]
            square = total["spread.square"] / total["spread.count"]
            variance = square - mean**2
            # a constant feature must not be cut at its own value by the rounding of sums
            deviation = torch.where(variance > 1e-9 * square, variance, 0.0).sqrt()
            return state.next({**state.shared, MEAN: mean, DEVIATION: deviation})
        sums = add_messages({}, _widened(updates), self.agreed_tag(state.shared, env), env)
        return state.next(state.shared, sums, self.result_of(sums))

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]: one look-up per group, added up."""
        features, indices = self.features.mapping(shared, env), self.indices(shared, env)
        weight, seen = shared[WEIGHT].contiguous(), shared[SEEN]
        tables = torch.arange(self._num_groups(env.task)) * 2**self.bits

        def scores(inputs: Tensor) -> Tensor:
            rows = indices(features(inputs)) + tables
            return mask_unseen(F.embedding_bag(rows, weight, mode="sum"), seen)

        return Predictor(scores)

    def indices(self, shared: Tensors, env: Env) -> Callable[[Tensor], Tensor]:
        """Features [B, D₀] to table rows [B, E] int64."""
        steps = [NormalDist().inv_cdf((k + 1) / (self.levels + 1)) for k in range(self.levels)]
        cuts = torch.tensor(steps, dtype=torch.float64)
        if MEAN in shared:
            cuts = shared[MEAN][:, None] + shared[DEVIATION][:, None] * cuts
            cuts = cuts.float().double()  # inputs are float32, so rounding beyond that is noise
        generator = np.random.Generator(np.random.Philox(derive_seed(env.seed, "safle")))
        num_digits = self.features.num_features(env.task) * self.levels
        shape = self._num_groups(env.task), self.bits
        order = torch.from_numpy(generator.permutation(num_digits))[: math.prod(shape)]
        places = torch.arange(self.bits)

        def rows(features: Tensor) -> Tensor:
            digits = (features[:, :, None] > cuts).flatten(1)  # [B, D₀·L]
            chosen = digits[:, order].view(-1, *shape)
            return (chosen.long() << places).sum(2)

        return rows

    def agreed_tag(self, shared: Tensors, env: Env) -> int:
        """The tag of the thresholded features."""
        inner = self.features.tag(shared, env)
        return feature_tag(f"{inner}|{self.levels}|{self.bits}|{self.groups}|{self.thresholds}")

    def summed_rows(
        self, shared: Tensors, data: Examples, env: Env
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples as (one-hot rows of all tables [B, E·length], labels [B])."""
        indices = self.indices(shared, env)
        for rows, labels in self.features.batches(data, shared, env):
            yield one_hot_tables(indices(rows), 2**self.bits), labels

    def stats_of(self, sums: Tensors) -> SufficientStats:
        """Summed counts as statistics."""
        plain = select(sums, "sum")
        return decode_stats({n: t.double() if n in COUNTS else t for n, t in plain.items()}, "")

    def rounding(self, sums: Tensors) -> float:
        """Counts are exact."""
        return 0.0

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """The tables."""
        return solve_stats(self.stats_of(sums), self.ridge).tensors()

    def why_not_forget(self) -> str | None:
        """Thresholds from sums were made with everybody."""
        made = self.thresholds == "sums"
        return "its thresholds were made with that client (thresholds=fixed)" if made else None

    def _num_groups(self, task: Task) -> int:
        digits = self.features.num_features(task) * self.levels
        return max(1, min(self.groups, digits // self.bits))

    def _is_first(self, env: Env) -> bool:
        return self.thresholds == "sums" and env.round == 0


def one_hot_tables(indices: Tensor, length: int) -> Tensor:
    """Table rows [B, E] as the sparse features they stand for: [B, E·length] float64."""
    return F.one_hot(indices, length).flatten(1).to(torch.float64)


def _widened(updates: Updates) -> Updates:
    """Counts of one client fit 32 bits, their sum may not."""
    for client, update in updates:
        wide = {n: t.long() if t.dtype == torch.int32 else t for n, t in update.tensors.items()}
        yield client, Update(wide, update.weight)


def _added(updates: Updates) -> dict[str, Tensor]:
    total: dict[str, Tensor] = {}
    for _, update in updates:
        for name, tensor in update.tensors.items():
            total[name] = total[name] + tensor if name in total else tensor.clone()
    return total
