"""A method of a user's own, as one would write it beside the data."""

from __future__ import annotations

from dataclasses import dataclass

from fedcord import AveragesModels, FedAvg, LocalSGD
from fedcord.core.contract import ClientResult, Env, ServerState, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class Halfway(AveragesModels):
    """Federated averaging whose server goes half of the way."""

    local: LocalSGD = param(LocalSGD(), "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return FedAvg(self.local).client_update(shared, memory, data, env)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        mean = FedAvg(self.local).aggregate(state, updates, env).shared
        return state.next({name: (old + mean[name]) / 2 for name, old in state.shared.items()})
