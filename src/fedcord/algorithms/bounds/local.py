"""Everyone alone: each client trains its own network, and nothing is shared.

Reference: none; it is what a method must beat at a client to be worth its exchange.

Travels: nothing but the number of examples. Stays: the client's model.

| symbol | here |
|---|---|
| the client's model | `model.*` of its memory |
| passes over its data in a round | `local.epochs` |

Deviations: none. Everybody starts from the same weights, drawn from the run's seed, so that methods
without exchange in their limit (λ = 0 of Ditto or FedProto) are this one. The server's test is the
mean over clients, each with its own model; `local-ridge` is the same with a closed form.

Limits: one client is FedAvg with that client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, first_network, network_predictor
from fedcord.core.contract import (
    ClientResult,
    Env,
    Predictor,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task, tensors_of
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select


@dataclass(frozen=True)
class Local:
    """A network per client."""

    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """There is no common model."""
        unchanged = self.local.augment == "none"
        return Traits(keeps_own_models=True, looks_through_network=unchanged)

    def review(self, task: Task) -> Review:
        """What training needs."""
        return self.local.review(task)

    def init(self, env: Env) -> ServerState:
        """Nothing is shared."""
        return ServerState(shared={})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """Nothing is sent."""
        return {}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Go on with the client's own model."""
        trained = train_received(self.local, _own(memory, env), [data], [env])[0].update
        return ClientResult(Update({}, trained.weight, trained.metrics), trained.tensors)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """There is nothing to do but to hear everybody."""
        for _ in updates:
            pass
        return state.next(shared={})

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores and features of the client's model, or of the one all start from."""
        model = select(_own(memory, env), MODEL)
        return network_predictor(env.task.held_network(model, env.client))


def _own(memory: Tensors, env: Env) -> Tensors:
    """The client's model so far; at first what everybody draws from the run's seed."""
    return memory or prefixed(MODEL, tensors_of(first_network(env)))
