"""What a client minimises by itself: classify by prototypes, contrast features, contrast both.

Reference: FAFI (ICML 2025), its released code.

With unit features z [N, D] and prototypes P [C, D], and CE the mean cross-entropy,

    L_base = CE(z Pᵀ, y) + SupCon(z, y) + CE(z Pᵀ/τ_pf, y) + CE(P Pᵀ/τ_pp, 0…C−1).

At τ_pf = 1 the third term is the first, value and gradient, and is not computed again. L_base
never tends to 0: SupCon alone stays above about log |Pos|. With contrastive = none and without
prototype_contrast it is the first term alone, plain cross-entropy.

Two ideas that did not help (docs/algorithms/ladder.md) are kept for comparison. A *memory bank* is
a queue of the client's own past features that join the contrast. A *feature bank* holds features of
every class from outside, and a further term draws features to those of their class and away from
others; the first one came from a teacher trained on public data, which `bank_file` names. Without
it they are unit vectors scattered around one direction per class, drawn from the seed, because a
federation has no public data in general.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.oneshot.frames import random_frame
from fedcord.core.contract import Env
from fedcord.core.params import check_params, param
from fedcord.losses.prototypes import prototype_self_contrast
from fedcord.losses.supcon import bank_contrast, supervised_contrast

Bank = tuple[Tensor, Tensor]
"""Features [M, D] of length one with their labels [M]."""

BANK_SCATTER = 0.5
"""Length of the random part of a feature bank's vectors, relative to the class's direction."""


@dataclass(frozen=True)
class Objective:
    """The terms of the base loss."""

    contrastive: str = param(
        "supcon", "positives: same class, or same example", choices=("supcon", "simclr", "none")
    )
    temperature: float = param(0.07, "of the contrast of features (paper: τ)", above=0)
    base_temperature: float = param(0.07, "scales that term by τ/τ_base", above=0)
    prototype_contrast: bool = param(
        True, "contrast prototypes with features and with each other: the last two terms"
    )
    feature_temperature: float = param(1.0, "of prototypes with features (paper: τ_pf)", above=0)
    prototype_temperature: float = param(1.0, "of prototypes alone (paper: τ_pp)", above=0)
    memory_bank: int = param(0, "past features kept as further contrast; 0: none", at_least=0)
    feature_bank: int = param(0, "outside features per class to contrast with", at_least=0)
    bank_weight: float = param(1.0, "weight of the contrast with the feature bank", at_least=0)
    bank_file: str = param(
        "",
        "an .npz file of public examples, x and y: the bank is a teacher's features of them",
        unwritten=True,
    )
    teacher_epochs: int = param(
        5, "the teacher's passes over the public examples", at_least=1, unwritten=True
    )
    alignment_epochs: int = param(
        0, "epochs of each period with nothing but the feature bank's contrast", at_least=0
    )
    period: int = param(5, "epochs after which the two stages repeat", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)

    def loss(
        self,
        features: Tensor,
        prototypes: Tensor,
        labels: Tensor,
        memory: Bank | None = None,
        outside: Bank | None = None,
        epoch: int = 0,
    ) -> Tensor:
        """L_base of one batch, a scalar.

        Args:
            features: [N, D] of length one.
            prototypes: [C, D].
            labels: [N].
            memory: the memory bank, when there is one.
            outside: the feature bank, when there is one.
            epoch: number of the epoch, for the two stages.
        """
        if outside is not None and epoch % self.period < self.alignment_epochs:
            return self.bank_weight * bank_contrast(features, labels, outside, self.temperature)
        scores = features @ prototypes.T
        loss = F.cross_entropy(scores, labels)
        if self.prototype_contrast:
            if self.feature_temperature == 1:
                loss = 2 * loss
            else:
                loss = loss + F.cross_entropy(scores / self.feature_temperature, labels)
            loss = loss + prototype_self_contrast(prototypes, self.prototype_temperature)
        if self.contrastive != "none":
            loss = loss + self._contrast(features, labels, memory)
        if outside is not None:
            contrast = bank_contrast(features, labels, outside, self.temperature)
            loss = loss + self.bank_weight * contrast
        return loss

    def _contrast(self, features: Tensor, labels: Tensor, memory: Bank | None) -> Tensor:
        if self.contrastive == "simclr":
            half = len(features) // 2  # the second half are other views of the same examples
            labels = torch.arange(half, device=features.device).repeat(2)
            memory = None
        return supervised_contrast(
            features, labels, self.temperature, self.base_temperature, memory
        )

    def remember(self, memory: Bank | None, features: Tensor, labels: Tensor) -> Bank | None:
        """The queue after a step: the newest features push the oldest out."""
        if self.memory_bank == 0:
            return None
        if memory is None:
            memory = features[:0].detach(), labels[:0]
        joined = torch.cat([memory[0], features.detach()]), torch.cat([memory[1], labels])
        return joined[0][-self.memory_bank :], joined[1][-self.memory_bank :]

    def outside_bank(self, num_classes: int, feature_dim: int, env: Env) -> Bank | None:
        """The feature bank, the same for every client."""
        if self.feature_bank == 0:
            return None
        generator = dataclasses.replace(env, round=0, client=None).generator("feature-bank")
        centres = random_frame(num_classes, feature_dim, generator)
        labels = torch.arange(num_classes).repeat_interleave(self.feature_bank)
        scatter = random_frame(len(labels), feature_dim, generator)
        features = F.normalize(centres[labels] + BANK_SCATTER * scatter, dim=1)
        return features.to(env.task.device), labels.to(env.task.device)
