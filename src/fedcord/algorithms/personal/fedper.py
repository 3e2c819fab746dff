"""The lower layers are averaged; every client has the last ones for itself.

Reference: Arivazhagan et al., "Federated Learning with Personalization Layers", 2019 (arXiv
1912.00818).

Travels: down and up the base layers, and the number of examples. Stays: the last layers.

| paper | here |
|---|---|
| W_B, base layers | `model.*` that is sent |
| W_P, personalization layers | `model.*` in a client's memory |
| K_P | `personal_layers` |

Deviations: a layer is a module with tensors of its own, so a normalisation layer counts as one; the
paper counts the blocks of its networks. All clients start from the same last layers.

There is no common model: the server's test is the mean over clients that have taken part.

Limits: personal_layers = 0 averages the bits of `fedavg`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from torch import nn

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.partial_model import KeepsPartOfModel
from fedcord.core.contract import ClientResult, Env
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class FedPer(KeepsPartOfModel):
    """Federated learning with personalisation layers."""

    personal_layers: int = param(1, "last layers that stay (paper: K_P)", at_least=0)
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def kept(self, network: nn.Module) -> Set[str]:
        """Names of the last layers' tensors."""
        return last_layers(network, self.personal_layers)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """All layers train together; the base layers are sent."""
        return self.train_together(self.local, shared, memory, data, env)


def last_layers(network: nn.Module, count: int) -> Set[str]:
    """Names of the tensors of the last `count` modules that have any, in the network's order."""
    names = list(network.state_dict())
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    last = layers[max(len(layers) - count, 0) :]
    return {name for name in names if name.rpartition(".")[0] in last}
