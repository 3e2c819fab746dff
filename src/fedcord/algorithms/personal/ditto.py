"""FedAvg, and beside it every client's own model, pulled towards the global one.

Reference: Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021
(arXiv 2012.04221).

Travels: down the global model; up the model and the number of examples. Stays: the client's own
model.

| paper | here |
|---|---|
| w | the global model, `model.*` that is sent |
| v_k | the client's own model, `model.*` in its memory |
| λ | `proximal_weight` |
| s | `personal_epochs` |
| η | `local.lr`, for both |

The client's own model descends ∇F_k(v) + λ (v − w), w being the model received in this round.

Deviations: the global objective is FedAvg's; the paper allows any. Both models read the client's
batches in the same order.

The server's test is of the global model; clients' own tests are of their own.

Limits: the global model has the bits of `fedavg` whatever λ is. λ = 0 leaves clients' own models to
local training, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    cross_entropy,
    first_network,
    received_model,
)
from fedcord.algorithms.kit.pull import pull_towards, trained_values
from fedcord.core.contract import ClientResult, Combination, Env, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import tensors_of
from fedcord.core.tensors import Tensors, prefixed, select


@dataclass(frozen=True)
class Ditto(AveragesModels):
    """A global model and personal ones near it."""

    proximal_weight: float = param(
        1.0, "pull of the global model (paper: λ)", at_least=0, space=(0.01, 10.0, "log")
    )
    personal_epochs: int | None = param(
        None, "epochs of the client's own model per visit; none: as `local` says", at_least=1
    )
    local: LocalSGD = param(LocalSGD(), "how clients train both models")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        common = self.traits_of_averaging()
        return replace(
            common,
            looks_through_network=unchanged,
            sums_suffice=self.combine.needs_only is not None,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """FedAvg's work, and the client's own model once more."""
        sent = train_received(self.local, shared, [data], [env])[0].update
        return ClientResult(sent, prefixed(MODEL, self._own(shared, memory, data, env)))

    def _own(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The client's own model after this visit."""
        start = select(memory, MODEL) or tensors_of(first_network(env))
        local = self.local
        if self.personal_epochs is not None:
            local = replace(local, epochs=self.personal_epochs, steps=None)
        if self.proximal_weight == 0:
            alone = train_received(local, prefixed(MODEL, start), [data], [env])[0].update
            return select(alone.tensors, MODEL)
        goal = trained_values(received_model(shared, env))
        network = env.task.network_with(start, env.client)
        pull = pull_towards(network, goal, self.proximal_weight)
        local.train(network, data.train, cross_entropy, env, pull)
        return tensors_of(network)
