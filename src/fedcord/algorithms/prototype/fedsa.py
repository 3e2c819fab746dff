"""Clients train towards semantic anchors that hardly move, instead of towards each other's means.

Reference: Zhou et al., "FedSA: A Unified Representation Learning via Semantic Anchors for
Prototype-based Federated Learning", AAAI 2025.

Travels: down the anchors [C, D]; up a mean feature for each class the client holds; with
`exchange = "both"` the model and its number of examples too. The means over clients are needed to
answer, not to train, and travel once, after the last round. Stays: at the client how far apart the
classes it last sent were, and its model with `exchange = "prototypes"`.

| paper | here |
|---|---|
| semantic anchors | `anchor.mean` |
| global prototypes | `proto.mean` in the result |
| λ (regularisation) | `anchor_weight` |
| margin contrast, classifier calibration | `contrast_weight`, `calibration_weight` |
| EMA momentum | `anchor_momentum` |

Deviations. From the authors' code: prototypes come from one pass after training in evaluation mode
instead of from train-mode features of all epochs; distances under a root are kept from zero. The
published code sends prototypes in every round; here they come with the result. A client that has
one class, or has sent nothing, has no margin of its own and takes the anchors'. The † form is not
in the paper.

Limits: with all three weights 0 it is local training, or FedAvg bit for bit with
`exchange = "both"`. Anchors of classes nobody holds stay where they were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.descent import linear_start
from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.prototype.diagnostics import measure
from fedcord.algorithms.prototype.exchange import (
    EXCHANGE,
    EXCHANGES,
    ExchangesPrototypes,
    Upload,
    comparable_features,
)
from fedcord.algorithms.prototype.local_work import (
    answer,
    classified,
    current_network,
    feature_dims,
    local_prototypes,
    no_prototypes,
    train,
)
from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.contract import METRIC, ClientResult, Env, Review, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.losses.margin_contrast import margin_contrast
from fedcord.ops.vectors import nearest_gaps

ANCHORS, GAP = "anchor.mean", "gap"


@dataclass(frozen=True)
class FedSA(ExchangesPrototypes):
    """Semantic anchors."""

    exchange: str = param("prototypes", EXCHANGE, choices=EXCHANGES)
    anchor_weight: float = param(
        10.0, "pull towards anchors (paper: λ)", at_least=0, space=(1.0, 100.0, "log")
    )
    contrast_weight: float = param(1.0, "weight of the margin contrast", at_least=0)
    calibration_weight: float = param(1.0, "weight of classifying the anchors", at_least=0)
    anchor_momentum: float = param(
        0.9999, "share of an anchor kept in a round (paper: β)", at_least=0, at_most=1
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """What all prototype methods look at, and tasks with one class."""
        own = "fedsa: anchors of 1 class cannot be normalised over classes; use fedproto."
        errors = (own,) if task.num_classes < 2 else ()
        return self.local.review(task) + comparable_features(task) + Review(errors)

    def first_knowledge(self, env: Env) -> ServerState:
        """Anchors, and no prototype yet."""
        anchors = first_anchors(env.task.num_classes, feature_dims(env.task)[0], env)
        return ServerState({ANCHORS: anchors}, result=no_prototypes(env).tensors())

    def asked_for(self, env: Env) -> dict[str, TensorSpec]:
        """Prototypes of the client's classes."""
        return Prototypes.spec(env.task.num_classes, feature_dims(env.task)[0])

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with anchors, then one pass for the prototypes."""
        network = current_network(shared, memory, env)
        anchors = shared[ANCHORS]
        margin = max(mean_gap(anchors), float(memory.get(GAP, 0.0)))
        loss = self.local_loss(anchors.to(env.task.device), margin)
        metrics = train(self.local, network, data, loss, env)
        own = local_prototypes(network, data, env)
        kept = {GAP: torch.tensor(mean_gap(own.values[own.held]))}
        return answer(self.traits.keeps_own_models, network, own.tensors(), kept, data, metrics)

    def local_loss(self, anchors: Tensor, margin: float) -> Loss | None:
        """Cross-entropy and the three terms of the anchors; None when all weigh nothing."""
        if self.anchor_weight == self.contrast_weight == self.calibration_weight == 0:
            return None
        classes = torch.arange(len(anchors), device=anchors.device)

        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            features = features_of(network, inputs)
            total = F.cross_entropy(classified(network, features), labels)
            total = total + self.anchor_weight * F.mse_loss(features, anchors[labels])
            contrast = margin_contrast(features, labels, anchors, margin)
            total = total + self.contrast_weight * contrast
            # the anchors are constants, so this term reaches the classifier alone
            calibration = F.cross_entropy(classified(network, anchors), classes)
            return total + self.calibration_weight * calibration

        return loss

    def learn(self, state: ServerState, uploads: Sequence[Upload], env: Env) -> ServerState:
        """Prototypes are means over owners; anchors follow them slowly."""
        before = Prototypes.of(state.result)
        tables = [Prototypes.of(upload.tensors) for upload in uploads]
        new = joined(tables)
        after = before.replaced_by(new)
        anchors = state.shared[ANCHORS]
        moved = self.anchor_momentum * anchors + (1 - self.anchor_momentum) * new.values
        anchors = torch.where(new.held[:, None], moved, anchors)
        private = measure(tables, before, after) | {
            f"{METRIC}.anchor_gap": torch.tensor(mean_gap(anchors))
        }
        return state.next({ANCHORS: anchors}, private, after.tensors())

    def known(self, shared: Tensors) -> Prototypes:
        """The means over clients; anchors are no place where features are."""
        return Prototypes.of(shared)


def first_anchors(num_classes: int, dim: int, env: Env) -> Tensor:
    """[C, D] >= 0: Gaussian points through two random layers, normalised over classes, and ReLU."""
    generator = env.generator("anchors")
    points = torch.randn(num_classes, dim, generator=generator)
    for _ in range(2):
        weight, bias = linear_start(dim, dim, generator)
        points = F.batch_norm(F.linear(points, weight, bias), None, None, training=True).relu()
    return points


def mean_gap(centres: Tensor) -> float:
    """The mean distance of a class to its nearest other one; 0 for fewer than two classes."""
    return float(nearest_gaps(centres).mean()) if len(centres) > 1 else 0.0
