"""Federated averaging whose clients are pulled back towards the weights they started from.

Reference: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| μ | `proximal_weight` |
| w^t | the model received at the start of the round |

The objective is CE + μ/2 Σ ||θ − θ_global||² over trained weights, buffers excluded. Its gradient
μ (θ − θ_global) is added in closed form, which is the same and costs no graph.

Deviations: clients always do their full local work (the paper also allows less for slow clients).
The reported `train_loss` is the cross-entropy alone, so that it compares with FedAvg's.

Limits: μ = 0 is FedAvg, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.algorithms.model_exchange import (
    AveragesModels,
    cross_entropy,
    model_update,
    received_model,
)
from fedcord.algorithms.stacked_mlp import StacksTraining
from fedcord.core.contract import ClientResult, Env, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class FedProx(AveragesModels, StacksTraining):
    """Federated averaging with a proximal term."""

    proximal_weight: float = param(0.01, "strength of the pull (paper: μ)", at_least=0)
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def pull(self) -> float:
        """The same μ where clients train in one go."""
        return self.proximal_weight

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return Traits(looks_through_network=unchanged, stacks=True, shows_features=True)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy and the proximal pull."""
        if self.can_stack(env.task):
            return self.client_updates(shared, [memory], [data], [env])[0]
        network = received_model(shared, env)
        trained = [p for p in network.parameters() if p.requires_grad]
        start = [p.detach().clone() for p in trained]

        def pull_back(gradients: list[Tensor]) -> None:
            with torch.no_grad():
                for gradient, weight, origin in zip(gradients, trained, start, strict=True):
                    gradient.add_(weight - origin, alpha=self.proximal_weight)

        pull = pull_back if self.proximal_weight > 0 else None
        metrics = self.local.train(network, data.train, cross_entropy, env, pull)
        return ClientResult(model_update(network, data, metrics))
