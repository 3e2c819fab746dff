"""What all methods share that solve a linear model from sums of one round.

The server's private state holds the sums as they travelled and a ledger of who is in them, which
is all that late joining and forgetting need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.privacy import Privacy, add_noise, solve_noisy
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats
from fedcord.algorithms.analytic.sum_messages import (
    STATS,
    add_messages,
    stats_update,
    summed_rounding,
    summed_stats,
)
from fedcord.algorithms.analytic.wire import check_float32_is_enough, wire_spec
from fedcord.core.contract import (
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Updates,
)
from fedcord.core.examples import ClientData, Examples
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.ridge import SolveReport, solve_ridge
from fedcord.ops.ridge_selection import choose_ridge

WEIGHT, SEEN, RIDGE = "head.weight", "head.seen", "head.ridge"


@dataclass(frozen=True)
class Solved:
    """The global model and how it was found.

    Attributes:
        weight: [D, C] float64.
        seen: [C] bool, classes somebody has.
        report: of the solver.
    """

    weight: Tensor
    seen: Tensor
    report: SolveReport

    def tensors(self) -> dict[str, Tensor]:
        """As part of a server's result."""
        ridge = torch.tensor(self.report.ridge, dtype=torch.float64)
        return {WEIGHT: self.weight, SEEN: self.seen, RIDGE: ridge}


class SolvesFromSums(ABC):
    """The half of the contract that single-round closed-form methods have in common.

    A method is a final frozen dataclass that has at least these fields.
    """

    features: FeatureMap
    ridge: float | str
    wire: str = "packed64"

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """See `traits_of_sums`."""

    def review(self, task: Task) -> Review:
        """What features need."""
        return self.features.review(task)

    def traits_of_sums(self) -> Traits:
        """One round, in which updates are sums over samples."""
        return Traits(
            rounds=1,
            additive=True,
            looks_through_network=self.features.looks_through_network,
            holds_sums=True,
            sums_suffice=True,
        )

    def init(self, env: Env) -> ServerState:
        """Nothing known yet; clients are sent the feature map where it has weights."""
        return ServerState(self.features.shared(env), result=nothing_solved(self.features, env))

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums in the agreed format."""
        return sums_spec(self.features, self.wire, env)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass over the samples, which are only ever added up."""
        stats = client_stats(self.features, shared, data, env)
        return ClientResult(stats_update(stats, self.wire))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Add up and solve once."""
        sums = add_messages({}, updates, self.agreed_tag(state.shared, env), env)
        return state.next(state.shared, sums, self.result_of(sums))

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """What prediction needs, from summed messages as `add_messages` returns them."""
        return solve_stats(self.stats_of(sums), self.ridge, self.wire).tensors()

    def agreed_tag(self, shared: Tensors, env: Env) -> int:
        """The tag of the features everybody must use."""
        return self.features.tag(shared, env)

    def summed_rows(
        self, shared: Tensors, data: Examples, env: Env
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples as (what is summed of them [B, D], labels [B])."""
        return self.features.batches(data, shared, env)

    def stats_of(self, sums: Tensors) -> SufficientStats:
        """Summed messages as statistics."""
        return summed_stats(sums, self.wire)

    def rounding(self, sums: Tensors) -> float:
        """How far summed messages may be from the samples' own Gram matrix."""
        return summed_rounding(sums, self.wire)

    def why_not_forget(self) -> str | None:
        """Why a client cannot be taken out of the sums exactly, or None when it can."""
        return why_not_exact(self.traits)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]: regressions of the one-hot code, not probabilities."""
        weight = aligned(memory if WEIGHT in memory else shared, WEIGHT)
        return linear_predictor(self.features.mapping(shared, env), weight, shared[SEEN])


def nothing_solved(features: FeatureMap, env: Env) -> dict[str, Tensor]:
    """The result before any round."""
    size = features.num_features(env.task), env.task.num_classes
    return {
        WEIGHT: torch.zeros(size, dtype=torch.float64),
        SEEN: torch.zeros(size[1], dtype=torch.bool),
        RIDGE: torch.zeros((), dtype=torch.float64),
    }


def sums_spec(features: FeatureMap, form: str, env: Env) -> dict[str, TensorSpec]:
    """A client's sums in the agreed format."""
    spec = wire_spec(form, features.num_features(env.task), env.task.num_classes)
    return {f"{STATS}.{name}": part for name, part in spec.items()}


def why_not_exact(traits: Traits) -> str | None:
    """Why nobody can be taken out of plain sums exactly, or None when anybody can."""
    return None if traits.additive else "its updates are not sums over samples"


def aligned(tensors: Tensors, name: str) -> Tensor:
    """A tensor in fresh memory and plain layout.

    BLAS rounds by how memory is aligned and laid out, which for a received message is chance:
    products with the original would differ in bits between engines.
    """
    return tensors[name].clone(memory_format=torch.contiguous_format)


def client_stats(
    features: FeatureMap,
    shared: Tensors,
    data: ClientData,
    env: Env,
    class_weight: Tensor | None = None,
) -> SufficientStats:
    """A client's sums over its training samples."""
    size = features.num_features(env.task), env.task.num_classes
    total = StatsAccumulator(*size, features.tag(shared, env), class_weight)
    for rows, labels in features.batches(data.train, shared, env):
        total.add(rows, labels)
    return total.stats()


def solve_stats(stats: SufficientStats, ridge: float | str, form: str = "packed64") -> Solved:
    """The linear model of statistics.

    Args:
        stats: of everybody.
        ridge: λ, or `gcv` to choose it from the statistics themselves.
        form: how they travelled; float32 is only accepted where the solve bears it.
    """
    gram = stats.gram_matrix()
    if isinstance(ridge, str):
        square, count = float(stats.target_square), float(stats.count)
        chosen = choose_ridge(gram, stats.moment, square, count)
    else:
        chosen = ridge
    weight, report = solve_ridge(gram, stats.moment, chosen)
    if form == "packed32":
        check_float32_is_enough(report.condition)
    return Solved(weight, stats.class_count > 0, report)


def solve_private(
    exact: SufficientStats,
    ridge: float | str,
    privacy: Privacy,
    num_clients: int,
    generator: Generator,
) -> tuple[Solved, SufficientStats]:
    """The linear model of statistics once the server has added its noise, and the noisy ones.

    Args:
        exact: of everybody, with what noise clients have added.
        ridge: λ, if the noise allows so little; `gcv`: the least that it allows.
        privacy: how much noise there must be.
        num_clients: how many have added theirs.
        generator: of the server's noise.
    """
    noisy = add_noise(exact, privacy.server_noise, generator)
    least = privacy.least_ridge(exact.num_features, num_clients)
    asked = least if isinstance(ridge, str) else max(ridge, least)
    weight, report = solve_noisy(noisy.gram_matrix(), noisy.moment, asked)
    return Solved(weight, exact.class_count > 0, report), noisy


def linear_predictor(
    features: Callable[[Tensor], Tensor], weight: Tensor, seen: Tensor
) -> Predictor:
    """Features [B, D] of inputs times a weight [D, C], for the classes [C] that anybody has."""
    return Predictor(lambda inputs: mask_unseen(features(inputs) @ weight, seen))


def zero_predictor(task: Task) -> Predictor:
    """All classes alike, as long as nothing is solved."""
    nothing = torch.zeros(1, task.num_classes, dtype=torch.float64)
    return Predictor(lambda inputs: nothing.expand(inputs.shape[0], -1))


def mask_unseen(scores: Tensor, seen: Tensor) -> Tensor:
    """Scores [B, C] where classes that nobody has cannot win, even if all others are negative."""
    lowest = scores.min(dim=1, keepdim=True).values
    return torch.where(seen, scores, lowest - 1)
