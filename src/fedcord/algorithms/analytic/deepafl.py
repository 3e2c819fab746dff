"""A deep residual network without gradients: every block is one round of sums.

Reference: Tang et al., "DeepAFL: Deep Analytic Federated Learning", ICLR 2026 (arXiv 2603.00579).

Travels: in every round up the joint sums of the features Φ and the next block's hidden units F
(only what the server cannot work out itself, except every `refresh` blocks), down the blocks so
far; with `personal`, after the last round down the regularised sum of the last features. Stays:
samples and personal last layers.

| paper | here |
|---|---|
| Φ_0, Φ_t | `features`; after t blocks |
| F_t = act(Φ_t B_t + b_t) | `hidden units`, B and b drawn from the run's seed |
| Ω_t | `block{t}.omega` |
| W_t, λ | ridge model on Φ_t, `ridge` |
| γ | `block_ridge` |
| T | `blocks` |

    Φ_{t+1} = Φ_t + F_t Ω_t      Ω_t = argmin ||Y − Φ_t W_t − F_t Ω W_t||² + γ||Ω||²

Deviations: the paper asks for two rounds per block, first for W_t and then for Ω_t. F_t depends on
Φ_t and the seed alone, so the joint sums of [Φ_t, F_t] give both, and by algebra also the sums of
Φ_{t+1}: T rounds instead of 2T+1. Sums and solves are in float64. The first features are those of
`features`; the paper's Φ_0 = tanh(XA + a) is features.expansion=tanh, features.unit=false,
features.bias=false. λ is chosen once, by generalised cross-validation on them. With `personal`,
every client solves once more on the last features with its own samples counted α times more, as
FedHiP does (a proposal for the latter's open question of deeper classifiers); the server knows the
sums of these features already, so it costs no round.

Limits: the training objective never rises from block to block, since Ω = 0 is allowed. With
block_ridge → ∞ it is `afl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.closed_form import (
    SEEN,
    WEIGHT,
    aligned,
    linear_predictor,
    solve_stats,
)
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.fedhip import ALPHA, COUNT, METRIC, FedHiP
from fedcord.algorithms.analytic.stats import SufficientStats
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
from fedcord.core.errors import ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.rng import derive_seed
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.anchored import sandwiched_solve
from fedcord.ops.gram import GramAccumulator
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.symmetric import pack, packed_length, unpack


@dataclass(frozen=True)
class DeepAFL:
    """Deep analytic federated learning in one round per block."""

    blocks: int = param(3, "residual blocks (paper: T), one round each", at_least=1)
    width: int = param(256, "hidden units of a block (paper: f)", at_least=1)
    ridge: float | str = param("gcv", "λ > 0, or gcv", above=0, choices=("gcv",))
    block_ridge: float = param(
        0.05, "ridge of a block (paper: γ)", above=0, space=(0.005, 0.5, "log")
    )
    activation: str = param("gelu", "of hidden units", choices=("gelu", "tanh", "relu"))
    refresh: int = param(5, "blocks after which all sums are sent again", at_least=1)
    features: FeatureMap = param(FeatureMap(), "features the first block starts from")
    personal: bool = param(False, "a last layer of its own for every client, as in FedHiP")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round per block, whose updates are sums over samples."""
        return Traits(
            rounds=self.blocks,
            additive=True,
            looks_through_network=self.features.looks_through_network,
            personalizes=self.personal,
            sums_suffice=True,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The sums of every block."""
        return "sum"

    def review(self, task: Task) -> Review:
        """What features need."""
        return self.features.review(task)

    def init(self, env: Env) -> ServerState:
        """Nothing known yet."""
        size = self.features.num_features(env.task), env.task.num_classes
        seen = torch.zeros(size[1], dtype=torch.bool)
        nothing = {WEIGHT: torch.zeros(size, dtype=torch.float64), SEEN: seen}
        return ServerState(shared=self.features.shared(env), result=nothing)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums of hidden units with everything; of the features themselves where due."""
        size, classes = self.features.num_features(env.task), env.task.num_classes
        shapes = {
            "block.gram": (packed_length(self.width),),
            "block.cross": (size, self.width),
            "block.moment": (self.width, classes),
        }
        if env.round % self.refresh == 0:
            shapes |= {"phi.gram": (packed_length(size),), "phi.moment": (size, classes)}
        real = {name: TensorSpec(shape, torch.float64) for name, shape in shapes.items()}
        counts = {
            "class_count": TensorSpec((classes,), torch.int64, counts=True),
            "tag_sum": TensorSpec((), torch.int64),
        }
        return {**real, **counts}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass: features through the blocks so far, then sums with the next block's units."""
        size, classes = self.features.num_features(env.task), env.task.num_classes
        joint = GramAccumulator(size + self.width)
        moment = torch.zeros(classes, size + self.width, dtype=torch.float64)
        through, units = self.blocks_map(shared, env.round, env), self.units(env.round, env)
        for rows, labels in self.features.batches(data.train, shared, env):
            phi = through(rows)
            both = torch.cat([phi, units(phi)], dim=1)
            joint.add(both)
            moment.index_add_(0, labels, both)
        gram = unpack(joint.packed())
        count = torch.bincount(data.train.labels, minlength=classes)
        tag = self.features.tag(shared, env) * count.sum()
        tensors = {
            "block.gram": pack(gram[size:, size:].contiguous()),
            "block.cross": gram[:size, size:].contiguous(),
            "block.moment": moment.T[size:].contiguous(),
            "class_count": count,
            "tag_sum": tag,
        }
        if env.round % self.refresh == 0:
            tensors["phi.gram"] = pack(gram[:size, :size].contiguous())
            tensors["phi.moment"] = moment.T[:size].contiguous()
        return ClientResult(Update(tensors, weight=len(data.train)))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Solve the block, and work out the sums of the features after it."""
        sums = self._added(state, updates, env)
        phi_gram = unpack(sums["phi.gram"]) if "phi.gram" in sums else state.private["phi.gram"]
        phi_moment = sums.get("phi.moment", state.private.get("phi.moment"))
        assert phi_moment is not None
        gram, cross, moment = unpack(sums["block.gram"]), sums["block.cross"], sums["block.moment"]
        count = sums["class_count"]
        if env.round == 0:
            stats = SufficientStats(
                sums["phi.gram"], phi_moment, count, count.sum().double(), sums["tag_sum"]
            )
            solved = solve_stats(stats, self.ridge)
            weight, ridge = solved.weight, solved.report.ridge
            history = [_objective(phi_moment, weight, stats.count)]
        else:
            weight, ridge = aligned(state.result, WEIGHT), float(state.private["ridge"])
            history = state.private["objective"].tolist()
        residual = moment - cross.T @ weight  # F'R
        omega = sandwiched_solve(gram, residual, weight, self.block_ridge)
        mixed = cross @ omega
        phi_gram = phi_gram + mixed + mixed.T + omega.T @ gram @ omega
        phi_moment = phi_moment + omega.T @ moment
        weight, _ = solve_ridge(phi_gram, phi_moment, ridge)
        history.append(_objective(phi_moment, weight, int(count.sum())))
        private = {
            "phi.gram": phi_gram,
            "phi.moment": phi_moment,
            "ridge": torch.tensor(ridge, dtype=torch.float64),
            "objective": torch.tensor(history, dtype=torch.float64),
        }
        shared = {**state.shared, f"block{env.round}.omega": omega}
        result = {WEIGHT: weight, SEEN: count > 0}
        if self.personal and env.round == self.blocks - 1:
            metric = phi_gram.clone()
            metric.diagonal().add_(ridge)
            result |= {METRIC: pack(metric), COUNT: count.sum()}
        return state.next(shared, private, result)

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's own last layer and its α by leave-one-out."""
        through = self.blocks_map(shared, self.blocks, env)
        phi = through(self.features.all(data.train, shared, env))
        targets = F.one_hot(data.train.labels, env.task.num_classes).to(torch.float64)
        known = {**shared, WEIGHT: aligned(shared, WEIGHT)}
        alpha, weight = FedHiP().personal_model(known, phi, targets)
        return {WEIGHT: weight, ALPHA: torch.tensor(alpha, dtype=torch.float64)}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C] of the network as deep as it is by now."""
        done = sum(1 for name in shared if name.endswith(".omega"))
        features, through = self.features.mapping(shared, env), self.blocks_map(shared, done, env)
        weight = aligned(memory if WEIGHT in memory else shared, WEIGHT)
        return linear_predictor(lambda inputs: through(features(inputs)), weight, shared[SEEN])

    def blocks_map(self, shared: Tensors, depth: int, env: Env) -> Callable[[Tensor], Tensor]:
        """Features [B, D] to features [B, D] after the first blocks."""
        units = [self.units(block, env) for block in range(depth)]
        omegas = [aligned(shared, f"block{block}.omega") for block in range(depth)]

        def through(phi: Tensor) -> Tensor:
            for hidden, omega in zip(units, omegas, strict=True):
                phi = phi + hidden(phi) @ omega
            return phi

        return through

    def units(self, block: int, env: Env) -> Callable[[Tensor], Tensor]:
        """Features [B, D] to a block's hidden units [B, F].

        They are those of a random layer that every client can draw.
        """
        size = self.features.num_features(env.task)
        seed = derive_seed(env.seed, f"deepafl/{block}")
        generator = np.random.Generator(np.random.Philox(seed))
        limit = 1 / math.sqrt(size)
        matrix = torch.from_numpy(generator.uniform(-limit, limit, (size, self.width)))
        offset = torch.from_numpy(generator.uniform(-limit, limit, self.width))
        activations = {"gelu": F.gelu, "tanh": torch.tanh, "relu": torch.relu}
        activation = cast(Callable[[Tensor], Tensor], activations[self.activation])
        return lambda phi: activation(phi @ matrix + offset)

    def _added(self, state: ServerState, updates: Updates, env: Env) -> dict[str, Tensor]:
        tag, total = self.features.tag(state.shared, env), dict[str, Tensor]()
        for client, update in updates:
            sent = update.tensors
            if int(sent["tag_sum"]) != tag * int(sent["class_count"].sum()):
                raise ProtocolError(
                    f"{env.said(client)} used other features than agreed; give it the same "
                    "encoder, preprocessing, random features and seed."
                )
            for name, tensor in sent.items():
                total[name] = total[name] + tensor if name in total else tensor.clone()
        return total


def _objective(moment: Tensor, weight: Tensor, count: int) -> float:
    """||Y − ΦW||² + λ||W||² of the optimal W, for which it is N − tr(W'Φ'Y)."""
    return count - float((weight * moment).sum())
