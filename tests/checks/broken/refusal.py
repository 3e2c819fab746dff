"""Algorithms that learn nothing, accept anything, or cannot do without anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedcord.core.contract import (
    ClientResult,
    Env,
    ServerState,
    Update,
    Updates,
)
from fedcord.core.errors import NumericalError
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, TensorSpec
from tests.checks.sound import NearestMean, Plain

# --- learning and refusal -------------------------------------------------------------------------


@dataclass(frozen=True)
class NeverTrains(Plain):
    """Sends back what it received."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        copies = {name: tensor.clone() for name, tensor in shared.items()}
        return ClientResult(Update(copies, weight=len(data.train)))


class AnySpec(TensorSpec):
    """Agrees with every shape and type."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = TensorSpec.__hash__


@dataclass(frozen=True)
class AgreesToAnything(NearestMean):
    """Says it expects whatever arrives; a doubled tensor is folded in without a word."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        agreed = super().expected_update(shared, env)
        return {name: AnySpec(spec.shape, spec.dtype) for name, spec in agreed.items()}

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        fitting = (
            (client, replace(update, tensors=self._folded(update.tensors, state.shared)))
            for client, update in updates
        )
        return super().aggregate(state, fitting, env)

    def _folded(self, tensors: Tensors, like: Tensors) -> Tensors:
        return {
            name: tensor.reshape(-1)[: like[name].numel()].reshape(like[name].shape)
            for name, tensor in tensors.items()
        }


@dataclass(frozen=True)
class SwallowsErrors(Plain):
    """Goes on when nobody could be heard."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        try:
            return super().aggregate(state, updates, env)
        except NumericalError:
            return state.next(state.shared)


# --- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeedsEverybody(Plain):
    """Takes it for granted that client 1 is there."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        everybody = dict(updates)
        everybody[1]
        return super().aggregate(state, iter(everybody.items()), env)
