"""The nearest class mean on pre-trained features, exactly, from one round of sums.

Reference: Legate et al., "Guiding The Last Layer in Federated Learning with Pre-Trained Models",
NeurIPS 2023 (arXiv 2306.03937).

Travels: up the sum of the client's features for every class, DC numbers, and class counts; down
nothing, unless the feature map is a network that is not frozen. Stays: samples and features.

| paper | here |
|---|---|
| Σ z over the client's samples of class c | `ncm.sum`, row c |
| N_c of client k | `ncm.class_count` |
| m_c, mean feature of class c | the rows' sum over the counts' sum |
| classifier weight m_c / ‖m_c‖ | `head.weight`, column c |

    scores = z·m_c / ‖m_c‖

Deviations: there is no bias (the authors' code leaves the untrained one in the layer). A class that
nobody has cannot be predicted. Their second stage, fine-tuning from this head, is `fed3r+ft` with
another head.

Limits: one client with all samples is the nearest class mean by angle; so is any partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fedcord.algorithms.analytic.closed_form import SEEN, WEIGHT, aligned, linear_predictor
from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.analytic.sum_messages import check_tag
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
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.vectors import unit

NCM = "ncm"


@dataclass(frozen=True)
class FedNCM:
    """Nearest class mean from sums."""

    features: FeatureMap = param(
        FeatureMap(expansion="none", unit=False, bias=False), "what is averaged"
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """One round, in which updates are sums over samples."""
        through = self.features.looks_through_network
        return Traits(rounds=1, additive=True, looks_through_network=through, sums_suffice=True)

    def needs_only(self, env: Env) -> Combination | None:
        """Means follow from the sums of sums and of counts."""
        return "sum"

    def review(self, task: Task) -> Review:
        """What features need."""
        return self.features.review(task)

    def init(self, env: Env) -> ServerState:
        """Nothing known yet; clients are sent the feature map where it has weights."""
        size = self.features.num_features(env.task), env.task.num_classes
        nothing = {
            WEIGHT: torch.zeros(size, dtype=torch.float64),
            SEEN: torch.zeros(size[1], dtype=torch.bool),
        }
        return ServerState(self.features.shared(env), result=nothing)

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Sums of features by class, counts, and the checksum of the feature map."""
        classes = env.task.num_classes
        return {
            f"{NCM}.sum": TensorSpec(
                (classes, self.features.num_features(env.task)), torch.float64
            ),
            f"{NCM}.class_count": TensorSpec((classes,), torch.int64, counts=True),
            f"{NCM}.tag_sum": TensorSpec((), torch.int64),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """One pass over the samples, which are only ever added up."""
        classes = env.task.num_classes
        size = classes, self.features.num_features(env.task)
        sums = torch.zeros(size, dtype=torch.float64)
        for rows, labels in self.features.batches(data.train, shared, env):
            sums.index_add_(0, labels, rows)
        count = torch.bincount(data.train.labels, minlength=classes)
        tag = count.sum() * self.features.tag(shared, env)
        message = {"sum": sums, "class_count": count, "tag_sum": tag}
        return ClientResult(Update(prefixed(NCM, message), weight=len(data.train)))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """Add up, divide once, and scale every mean to length one."""
        tag, total = self.features.tag(state.shared, env), dict[str, torch.Tensor]()
        for client, update in updates:
            message = select(update.tensors, NCM)
            check_tag(message, tag, env.said(client))
            total = {n: total[n] + t if n in total else t.clone() for n, t in message.items()}
        count = total["class_count"]
        means = total["sum"] / count.clamp(min=1)[:, None]
        result = {WEIGHT: unit(means).T.contiguous(), SEEN: count > 0}
        return state.next(state.shared, prefixed(NCM, total), result)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scores [B, C]: the part of the feature that points to each class mean."""
        features, weight = self.features.mapping(shared, env), aligned(shared, WEIGHT)
        return linear_predictor(features, weight, shared[SEEN])
