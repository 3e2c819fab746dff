"""Federated averaging of everything but normalisation layers, which stay with their client.

Reference: Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
ICLR 2021 (arXiv 2102.07623).

Travels: down and up all other layers, and the number of examples. Stays: scales, shifts and
statistics of normalisation layers.

| paper | here |
|---|---|
| layers that are not BN | `model.*` that is sent |
| BN layers | `model.*` in a client's memory |

Deviations: group, layer and instance normalisation stay with the client as well; the paper has
batch normalisation only. Clients count by their numbers of examples.

There is no common model: the server's test is the mean over clients that have taken part.

Limits: for a network without normalisation layers it averages the bits of `fedavg`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.partial_model import KeepsPartOfModel
from fedcord.core.contract import ClientResult, Env
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors

NORMALISATION = (_NormBase, nn.GroupNorm, nn.LayerNorm)
"""Classes of layers that stay; the first is that of batch and instance normalisation."""


@dataclass(frozen=True)
class FedBN(KeepsPartOfModel):
    """Federated averaging with local normalisation."""

    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def kept(self, network: nn.Module) -> Set[str]:
        """Names of the normalisation layers' tensors."""
        layers = {n for n, module in network.named_modules() if isinstance(module, NORMALISATION)}
        return {name for name in network.state_dict() if name.rpartition(".")[0] in layers}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """All layers train together; all but normalisation is sent."""
        return self.train_together(self.local, shared, memory, data, env)
