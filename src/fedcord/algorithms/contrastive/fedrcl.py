"""Federated averaging with supervised contrast at every stage, kept from collapsing.

Reference: Seo et al., "Relaxed Contrastive Learning for Federated Learning", CVPR 2024.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| τ | `temperature` |
| λ | `threshold` |
| β | `penalty_weight` |
| stages l | `stages` of the network, before activation, averaged over the map |

The loss of a batch is CE + mean over stages and examples of (SCL_i + β PEN_i); see
`relaxed_contrast`.

Deviations: the defaults are the authors' code (least similar positive, two most similar negatives);
`topk_pos = topk_neg = "all"` is the paper's form as far as we know it. The server weighs clients by
their examples as every method here; the code's plain mean is `server_mean = "uniform"`. Networks
without stages are contrasted on their features. Gradients are clipped at 10 as in the code;
learning rate and its decay are those of `local`.

Limits: both weights 0 is FedAvg with the same `local`, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.relaxed_contrast import likeness_penalty, relaxed_contrast
from fedcord.algorithms.kit.heard import counted_alike
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    AveragesModels,
    model_update,
    received_model,
)
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Review,
    ServerState,
    Traits,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.ops.vectors import unit


@dataclass(frozen=True)
class FedRCL(AveragesModels):
    """Relaxed contrastive federated learning."""

    contrast_weight: float = param(
        1.0, "weight of the supervised contrast", at_least=0, space=(0.1, 10.0, "log")
    )
    penalty_weight: float = param(1.0, "weight of the penalty (paper: β)", at_least=0)
    temperature: float = param(0.05, "of both terms (paper: τ)", above=0)
    threshold: float = param(
        0.7, "similarity above which a pair is too alike (paper: λ)", at_least=-1, at_most=1
    )
    topk_pos: int | str = param(
        1, "least similar positives per example, or all", at_least=1, choices=("all",)
    )
    topk_neg: int | str = param(
        2, "most similar negatives per example, or all", at_least=1, choices=("all",)
    )
    server_mean: str = param(
        "examples", "clients' weights on the server", choices=("examples", "uniform")
    )
    local: LocalSGD = param(LocalSGD(clip=10.0), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds."""
        sums = self.combine.needs_only is not None
        return replace(self.traits_of_averaging(), sums_suffice=sums)

    def needs_only(self, env: Env) -> Combination | None:
        """The mean by examples; one where all clients count the same hides who has none."""
        return self.combine.needs_only if self.server_mean == "examples" else None

    def review(self, task: Task) -> Review:
        """Whether the network has stages to contrast."""
        own = "this network has no stages; fedrcl contrasts its features as the only one."
        has_stages = hasattr(task.scratch_network(), "stages")
        return self.local.review(task) + Review(notes=() if has_stages else (own,))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy and the two terms."""
        if self.contrast_weight == 0 and self.penalty_weight == 0:
            return FedAvg(self.local).client_update(shared, memory, data, env)
        network = received_model(shared, env)
        metrics = self.local.train(network, data.train, self._loss, env)
        return ClientResult(model_update(network, data, metrics))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The mean of the clients' models, or what `combine` makes of them."""
        if self.server_mean == "uniform":
            updates = counted_alike(updates)
        return state.next(shared=self.combine.join(updates, state.shared))

    def _loss(self, network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        stages, scores = stages_and_scores(network, inputs)
        loss = F.cross_entropy(scores, labels)
        for directions in stages:
            loss = loss + self._terms(directions @ directions.T, labels) / len(stages)
        return loss

    def _terms(self, similarity: Tensor, labels: Tensor) -> Tensor:
        """Both terms of one stage, a scalar; a term of weight 0 is not computed."""
        total = torch.zeros((), device=similarity.device)
        if self.contrast_weight > 0:
            chosen = self.topk_pos, self.topk_neg
            contrast = relaxed_contrast(similarity, labels, *chosen, self.temperature)
            total = total + self.contrast_weight * contrast.mean()
        if self.penalty_weight > 0:
            penalty = likeness_penalty(
                similarity, labels, self.topk_pos, self.threshold, self.temperature
            )
            total = total + self.penalty_weight * penalty.mean()
        return total


def stages_and_scores(network: nn.Module, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
    """Directions [B, D_l] of every stage, and class scores [B, C], from one forward pass.

    A stage's map is taken before activation and averaged over its places. A network without
    `stages` (MLPs, text, frozen encoders) has one: its features.
    """
    if hasattr(network, "stages"):
        maps: list[Tensor] = network.stages(inputs)  # type: ignore[operator]
        features: Tensor = network.features_after(maps[-1])  # type: ignore[operator]
    else:
        features = features_of(network, inputs)
        maps = [features]
    scores: Tensor = network.classify(features)  # type: ignore[operator]
    pooled = [m if m.dim() == 2 else m.flatten(2).mean(2) for m in maps]
    return [unit(vectors) for vectors in pooled], scores
