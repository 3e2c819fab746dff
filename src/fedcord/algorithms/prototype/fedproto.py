"""Clients exchange the mean feature of each class, and draw their features towards the others'.

Reference: Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI
2022.

Travels: down a global prototype for each class anyone has had; up one for each class the client
holds, with `weighting = "samples"` also their numbers of examples; with `exchange = "both"` the
model and its number of examples too. Stays: the client's model, with `exchange = "prototypes"`.

| paper | here |
|---|---|
| C_i^(j), C̄^(j) | `proto.mean` sent up, sent down |
| N_j | clients whose `proto.present` is not 0 in class j |
| |D_{i,j}| | `proto.present` with `weighting = "samples"` |
| λ | `prototype_weight` |
| L_R | `prototype_alignment` |

Deviations. From the paper: clients count alike in a global prototype, as in the authors' code; the
printed weighted mean divides twice, and `weighting = "samples"` divides once. The distance is the
mean over elements, as in the authors' code, not a norm. From the authors' code: prototypes come
from a pass over the data after training, in evaluation mode, instead of from the last epoch; a
class without a prototype cannot win, instead of standing at distance 100; all classes compete in a
test, not only the client's own. The † form is not in the paper.

Limits: λ = 0 is local training, or FedAvg bit for bit with `exchange = "both"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.diagnostics import measure
from fedcord.algorithms.prototype.exchange import EXCHANGE, EXCHANGES, ExchangesPrototypes, Upload
from fedcord.algorithms.prototype.local_work import (
    answer,
    current_network,
    feature_dims,
    local_prototypes,
    no_prototypes,
    pulled,
    train,
)
from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.contract import ClientResult, Env, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec


@dataclass(frozen=True)
class FedProto(ExchangesPrototypes):
    """Federated prototype learning."""

    exchange: str = param("prototypes", EXCHANGE, choices=EXCHANGES)
    prototype_weight: float = param(
        1.0, "pull towards prototypes (paper: λ)", at_least=0, space=(0.1, 10.0, "log")
    )
    weighting: str = param(
        "uniform", "clients' weights in a global prototype", choices=("uniform", "samples")
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def first_knowledge(self, env: Env) -> ServerState:
        """No prototype yet."""
        return ServerState(no_prototypes(env).tensors())

    def asked_for(self, env: Env) -> dict[str, TensorSpec]:
        """Prototypes of the client's classes."""
        dtype = torch.int32 if self.weighting == "samples" else torch.bool
        return Prototypes.spec(env.task.num_classes, feature_dims(env.task)[0], dtype)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with the pull, then one pass for the prototypes."""
        network = current_network(shared, memory, env)
        loss = pulled(Prototypes.of(shared), self.prototype_weight, env)
        metrics = train(self.local, network, data, loss, env)
        own = local_prototypes(network, data, env, counted=self.weighting == "samples")
        return answer(self.traits.keeps_own_models, network, own.tensors(), {}, data, metrics)

    def learn(self, state: ServerState, uploads: Sequence[Upload], env: Env) -> ServerState:
        """The mean of each class over the clients that hold it; others keep their prototype."""
        before = Prototypes.of(state.shared)
        tables = [Prototypes.of(upload.tensors) for upload in uploads]
        after = before.replaced_by(joined(tables, torch.stack([t.present for t in tables])))
        return state.next(after.tensors(), private=measure(tables, before, after))

    def known(self, shared: Tensors) -> Prototypes:
        """The global prototypes."""
        return Prototypes.of(shared)
