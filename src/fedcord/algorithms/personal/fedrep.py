"""Every client fits a head of its own to common features, then improves the features for it.

Reference: Collins et al., "Exploiting Shared Representations for Personalized Federated Learning",
ICML 2021 (arXiv 2102.07078).

Travels: down and up all layers but the head, and the number of examples. Stays: the head.

| paper | here |
|---|---|
| φ, the representation | `model.*` that is sent |
| h_i, the head | `model.*` in a client's memory |
| τ_h, local updates of the head | `head_epochs` |
| updates of the representation | `local.epochs` |
| α | `local.lr`, for both |

Deviations: none known from the paper. Statistics of batch normalisation are of the representation
and follow the batches in both phases. Both phases read the client's batches in the same order.

There is no common model: the server's test is the mean over clients that have taken part.

Limits: head_epochs = 0 averages the bits of `fedbabu`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from torch import nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.kit.partial_model import KeepsPartOfModel, head_names
from fedcord.algorithms.kit.trained_part import only_trained
from fedcord.core.contract import ClientResult, Env
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import tensors_of
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class FedRep(KeepsPartOfModel):
    """Federated representation learning."""

    head_epochs: int = param(5, "epochs of the head before the others' (paper: τ_h)", at_least=0)
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def kept(self, network: nn.Module) -> Set[str]:
        """Names of the head's tensors."""
        return head_names(network)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The head alone on fixed features, then the features under a fixed head."""
        network = env.task.network_with(self.model_of(shared, memory, env), env.client)
        if self.head_epochs > 0:
            longer = replace(self.local, epochs=self.head_epochs, steps=None)
            with only_trained("classifier", network):
                longer.train(network, data.train, cross_entropy, env)
        with only_trained("features", network):
            metrics = self.local.train(network, data.train, cross_entropy, env)
        return self.result(tensors_of(network), data, env, metrics)
