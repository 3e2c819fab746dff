"""Prototypes learned on the server from the members' prototypes, as in V9B of `ladder.PRESETS`.

Reference for the second contrast: Zhang et al., "FedTGP: Trainable Global Prototypes with
Adaptive-Margin-Enhanced Contrastive Learning for Data and Model Heterogeneity in Federated
Learning", AAAI 2024.

| symbol | here |
|---|---|
| G | `fused.prototypes` [C, D] |
| γ_etf | `etf_weight` |
| adaptive margin | min(largest of the classes' distances to their nearest other class, `margin`) |

Deviations: G is trained once, after the only exchange, and is the classifier. In V9B as first run
it became the next chunk's alignment target, which is not one-shot (`feedback` does that: every
checkpoint is an exchange, and G goes on from where it was), and was overwritten by the mean before
evaluation (here it never is). With `feedback` the first model travels anew in every exchange,
although clients need no more than G: bytes down are an upper bound. Steps go through members in
ascending order instead of at random.

Limits: `etf_weight` → ∞ gives the anchors; `epochs` = 0 gives the starting point.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.feature_ensemble import PROTOTYPES, FeatureEnsemble
from fedcord.algorithms.oneshot.servers.members import mean_prototypes
from fedcord.core.contract import Env, Scores
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class PrototypeTraining:
    """How the server trains its prototypes."""

    epochs: int = param(20, "passes over the members, one step each", at_least=0)
    lr: float = param(1e-3, "Adam's learning rate", above=0)
    etf_weight: float = param(0.1, "pull towards the anchors (γ_etf)", at_least=0)
    contrast: str = param("dot", "how classes compete", choices=("dot", "fedtgp"))
    margin: float = param(100.0, "largest margin of the fedtgp contrast", at_least=0)
    start: str = param("anchors", "where training starts", choices=("anchors", "mean"))
    feedback: bool = param(
        False,
        "send them back after every checkpoint as the next target; not one-shot",
        unwritten=True,
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def needs_anchors(self) -> bool:
        """Whether training starts there or is pulled there."""
        return self.start == "anchors" or self.etf_weight > 0 or self.feedback


@dataclass(frozen=True)
class TrainableProtos:
    """The feature ensemble with learned prototypes in place of their mean."""

    ensemble: FeatureEnsemble
    training: PrototypeTraining

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """The feature ensemble's tensors with `fused.prototypes` trained."""
        result = self.ensemble.fuse(members, common, env)
        prototypes = torch.stack([member.prototypes for member in members.values()])  # [K, C, D]
        mean = mean_prototypes(members, "uniform")
        return {
            **result,
            PROTOTYPES: train_prototypes(
                self.training, prototypes, mean, common.anchors, common.learned
            ),
        }

    def scores(self, result: Tensors, env: Env) -> Scores:
        """As the feature ensemble."""
        return self.ensemble.scores(result, env)


def train_prototypes(
    training: PrototypeTraining,
    prototypes: Tensor,
    mean: Tensor,
    anchors: Tensor | None,
    learned_before: Tensor | None = None,
) -> Tensor:
    """G [C, D].

    Args:
        training: how.
        prototypes: [K, C, D] of the members.
        mean: [C, D] their mean.
        anchors: [C, D]; None only where `training` needs none.
        learned_before: [C, D] G as it was left, to go on from; None: the start that is chosen.
    """
    start = mean if anchors is None or training.start == "mean" else anchors
    start = start if learned_before is None else learned_before
    learned = start.detach().clone().requires_grad_()
    margin = min(class_gap(mean), training.margin)
    optimizer = torch.optim.Adam([learned], lr=training.lr)
    for _ in range(training.epochs):
        for own in prototypes:
            optimizer.zero_grad(set_to_none=True)
            loss = contrast_loss(own, learned, training.contrast, margin)
            if anchors is not None and training.etf_weight > 0:
                loss = loss + training.etf_weight * F.mse_loss(learned, anchors)
            loss.backward()
            optimizer.step()
    if not bool(torch.isfinite(learned).all()):
        raise NumericalError(
            f"the server's prototypes are not finite; lower server.training.lr "
            f"(now {training.lr:g})."
        )
    return learned.detach()


def contrast_loss(own: Tensor, learned: Tensor, contrast: str, margin: float) -> Tensor:
    """Each prototype [C, D] of a member should find its class among the learned ones [C, D].

    `dot` scores by the inner product; `fedtgp` by minus the distance, with the margin added to the
    distance of the true class.
    """
    classes = torch.arange(len(own))
    if contrast == "dot":
        return F.cross_entropy(own @ learned.T, classes)
    squared = (own[:, None] - learned[None]).square().sum(-1)
    distance = (squared + 1e-12).sqrt()  # the root has no gradient at 0
    return F.cross_entropy(-(distance + margin * torch.eye(len(own))), classes)


def class_gap(mean: Tensor) -> float:
    """The largest, over classes, of the distance to the nearest other class; 0 for one class."""
    if len(mean) < 2:
        return 0.0
    distance = torch.cdist(mean, mean).fill_diagonal_(float("inf"))
    return float(distance.min(dim=1).values.max())
