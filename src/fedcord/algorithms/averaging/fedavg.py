"""Clients train the global model on their own data; the server averages the results.

Reference: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| E, B, η | `local.epochs`, `local.batch_size`, `local.lr` |
| n_k | `Update.weight` |
| C (fraction of clients) | the run's `participation` |

Deviations: none from the paper. Batch-norm statistics are averaged like weights (the paper has
none); see `ops.weighted_mean` for the rule.

Limits: one client with all data is centralised SGD.
"""

from __future__ import annotations

from dataclasses import dataclass

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
class FedAvg(AveragesModels, StacksTraining):
    """Federated averaging."""

    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return Traits(looks_through_network=unchanged, stacks=True, shows_features=True)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy."""
        if self.can_stack(env.task):
            return self.client_updates(shared, [memory], [data], [env])[0]
        network = received_model(shared, env)
        metrics = self.local.train(network, data.train, cross_entropy, env)
        return ClientResult(model_update(network, data, metrics))
