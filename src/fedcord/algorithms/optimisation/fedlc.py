"""Federated averaging in which a client's scores are calibrated by how often it has each class.

Reference: Zhang et al., "Federated Learning with Label Distribution Skew via Logits Calibration",
ICML 2022.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| f(x)_y | class scores of the network |
| n_y | the client's training examples of class y |
| τ | `calibration` |
| f(x)_y − τ n_y^(−1/4) | the scores in the loss; a rarer class must win by more |

Deviations: the sum under the loss is over all classes, as in a softmax; the paper prints it without
the true one, which has no minimum. A class the client does not have would be lowered without bound:
it is left out of the softmax, so a client neither raises nor lowers it. Predictions use plain
scores, as in the paper.

Limits: τ = 0 is FedAvg, bit for bit where both train one client at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import (
    AveragesModels,
    cross_entropy,
    model_update,
    received_model,
)
from fedcord.core.contract import ClientResult, Combination, Env, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors

ROOT = 0.25
"""The exponent of class counts."""


@dataclass(frozen=True)
class FedLC(AveragesModels):
    """Federated averaging with calibrated scores."""

    calibration: float = param(
        1.0, "strength of the calibration (paper: τ); 0: none", at_least=0, space=(0.1, 10.0, "log")
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        return replace(
            self.traits_of_averaging(),
            looks_through_network=self.local.augment == "none",
            sums_suffice=self.combine.needs_only is not None,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training on calibrated scores."""
        network = received_model(shared, env)
        counts = torch.bincount(data.train.labels, minlength=env.task.num_classes)
        loss = calibrated_loss(counts.to(env.task.device), self.calibration)
        metrics = self.local.train(network, data.train, loss, env)
        return ClientResult(model_update(network, data, metrics))


def calibrated_loss(counts: Tensor, calibration: float) -> Loss:
    """Cross-entropy of scores − τ n^(−1/4), given the numbers of examples of each class [C]."""
    if calibration == 0:
        return cross_entropy
    margins = calibration * counts.float() ** -ROOT  # infinite where there is none

    def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(network(inputs) - margins, labels)

    return loss
