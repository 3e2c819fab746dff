"""Clients with similar labels share a last layer, which each adapts to its data in closed form.

Reference: Gu et al., "Analytic Personalized Federated Meta-Learning", 2025 (arXiv 2502.06915), of
which this is the framework pFedACnnL.

Travels: as in `fedacnnl`; after the last round down every group's last layer. Stays: samples and
the personal last layer. The server learns every client's class counts.

| paper | here |
|---|---|
| client groups | k-means on √(class shares), `most_groups` |
| group meta-model W^(g) | `group.weight` of the result |
| μ | `pull` |
| personal model W_k | `head.weight` of the client's memory |

    W_k = argmin ||A_k W − Y_k||² + μ ||W − W^(g)||²

Deviations: the grouping's distance and the personal objective are derived from the paper's
description. Hidden layers are everybody's; only the last is a group's (paper: all), which costs no
further round. A group's sums are joined with `borrow` times everybody's, so that small groups stay
well-posed. μ is chosen by exact leave-one-out.

Limits: one group and pull → ∞ is `fedacnnl`; pull → 0 is the client's own least squares. Groups
depend on the partition, so unlike `fedhip` the models are not invariant to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.adaptive_batch import Batches
from fedcord.algorithms.analytic.closed_form import SEEN, WEIGHT
from fedcord.algorithms.analytic.fedacnnl import (
    FedACnnL,
    layer_tag,
    layers_predictor,
    network_start,
)
from fedcord.algorithms.analytic.layerwise import Layers, collected
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import STATS, add_messages, check_tag, summed_stats
from fedcord.core.contract import (
    ClientId,
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
from fedcord.core.rng import derive_seed
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, select
from fedcord.ops.anchored import AnchoredPath
from fedcord.ops.kmeans import choose_groups
from fedcord.ops.ridge import solve_ridge

GROUP_WEIGHT, GROUP_CLIENT, GROUP_OF = "group.weight", "group.client", "group.of"
PULL = "head.pull"
GRID = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Pulls that leave-one-out tries, relative to the mean eigenvalue of the client's Gram matrix."""


@dataclass(frozen=True)
class PFedACnnL:
    """Analytic personalised federated meta-learning."""

    layers: Layers = param(Layers(), "the network")
    ridge: float = param(1e-2, "per patch (paper: γ)", above=0, space=(0.001, 0.1, "log"))
    last_ridge: float = param(
        1e-3, "per sample, of the last layer", above=0, space=(0.0001, 0.01, "log")
    )
    random_channels: float = param(
        0.5, "share of channels that are random filters", at_least=0, at_most=1
    )
    most_groups: int = param(8, "largest number of groups; also at most √clients", at_least=1)
    borrow: float = param(0.1, "everybody's sums in a group's, by this factor", at_least=0)
    pull: float | str = param(
        "loo", "μ > 0 towards the group's model, or loo", above=0, choices=("loo",)
    )

    batches: Batches = param(Batches(), "samples taken at once")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round per layer."""
        return Traits(rounds=self.layers.depth, personalizes=True)

    def review(self, task: Task) -> Review:
        """What the shared network needs."""
        return self.shared_network.review(task)

    @property
    def shared_network(self) -> FedACnnL:
        """The method that trains what everybody shares."""
        return FedACnnL(
            self.layers, self.ridge, self.last_ridge, self.random_channels, self.batches
        )

    def init(self, env: Env) -> ServerState:
        """No layer yet."""
        return network_start(env)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums of this round's layer."""
        return self.shared_network.expected_update(shared, env)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass through the layers so far, then sums."""
        return self.shared_network.client_update(shared, memory, data, env)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Solve this round's layer; the last one also for every group."""
        if env.round < self.layers.depth - 1:
            return self.shared_network.aggregate(state, updates, env)
        heard = dict(updates)  # groups are made of class counts, so all have to be heard first
        tag = layer_tag(self.layers, state.shared, env)
        for client, update in heard.items():
            check_tag(select(update.tensors, STATS), tag, env.said(client))
        everyone = summed_stats(add_messages({}, sorted(heard.items()), tag, env), "packed64")
        groups = self.groups(heard, env)
        weights = [
            self._group_weight(
                {c: heard[c] for c in heard if groups[c] == group}, everyone, tag, env
            )
            for group in range(1 + max(groups.values()))
        ]
        weight = self.shared_network.solve_layer(everyone, env)
        shared = {**state.shared, f"layer{env.round}.weight": weight}
        result = {
            SEEN: everyone.class_count > 0,
            GROUP_WEIGHT: torch.stack(weights),
            GROUP_CLIENT: torch.tensor(sorted(groups)),
            GROUP_OF: torch.tensor([groups[client] for client in sorted(groups)]),
        }
        return state.next(shared, result=result)

    def groups(self, heard: Mapping[ClientId, Update], env: Env) -> dict[ClientId, int]:
        """The group of every client, from class counts alone."""
        clients = sorted(heard)
        counts = torch.stack([heard[c].tensors[f"{STATS}.class_count"] for c in clients]).double()
        shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
        most = min(self.most_groups, int(len(clients) ** 0.5))
        found = choose_groups(shares.sqrt(), most, derive_seed(env.seed, "groups"))
        return dict(zip(clients, found.tolist(), strict=True))

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The group's last layer, adapted to the client's samples."""
        anchor = self._anchor(shared, env).clone(memory_format=torch.contiguous_format)
        if len(data.train) == 0:
            return {WEIGHT: anchor}
        weights = collected(shared)[:-1]
        inputs = env.task.prepare(data.train.inputs)
        rows = torch.cat([part[:, 0] for part in self.layers.design(inputs, weights, env.task)])
        targets = F.one_hot(data.train.labels, env.task.num_classes).to(torch.float64)
        pull, weight = self.personal_model(rows, targets, anchor)
        return {WEIGHT: weight, PULL: torch.tensor(pull, dtype=torch.float64)}

    def personal_model(self, rows: Tensor, targets: Tensor, anchor: Tensor) -> tuple[float, Tensor]:
        """(μ, W_k [D, C]) of a client with last-layer inputs [N, D] and targets [N, C]."""
        eye = torch.eye(rows.shape[1], dtype=torch.float64)
        path = AnchoredPath.of(rows, targets, anchor, eye)
        if isinstance(self.pull, str):
            mean = float(path.square.sum()) / rows.shape[1]
            strengths = [1 / (mean * pull) for pull in GRID]
            strength, weight = path.choose(strengths, targets, contains_own=False)
            return 1 / strength, weight
        return self.pull, path.model(1 / self.pull)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]: the client's own last layer, or everybody's on the server."""
        return layers_predictor(self.layers, shared, env, memory.get(WEIGHT))

    def _group_weight(
        self, members: Mapping[ClientId, Update], everyone: SufficientStats, tag: int, env: Env
    ) -> Tensor:
        own = summed_stats(add_messages({}, sorted(members.items()), tag, env), "packed64")
        gram = own.gram_matrix() + self.borrow * everyone.gram_matrix()
        moment = own.moment + self.borrow * everyone.moment
        count = own.count + self.borrow * everyone.count
        return solve_ridge(gram, moment, self.last_ridge * max(count, 1.0))[0].contiguous()

    def _anchor(self, shared: Tensors, env: Env) -> Tensor:
        clients = shared[GROUP_CLIENT].tolist()
        if env.client not in clients:
            return shared[f"layer{self.layers.depth - 1}.weight"]
        return shared[GROUP_WEIGHT][int(shared[GROUP_OF][clients.index(env.client)])]
