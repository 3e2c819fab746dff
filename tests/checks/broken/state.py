"""Algorithms that forget their state, miss their limits, or send what is secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from fedcord.algorithms.averaging.fedprox import FedProx
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import (
    ClientResult,
    Env,
    ServerState,
    Traits,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import param
from fedcord.core.tensors import Tensors, TensorSpec
from tests.checks.broken.changes import scaled, with_tensor
from tests.checks.registered import QUICK
from tests.checks.sound import Keeper, Plain

# --- state ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VelocityOnObject(Keeper):
    """Keeps the server's momentum on itself; right until the process ends."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        past = {**getattr(self, "_past", {}), -1: state.private}
        hidden = past.get(env.round - 1, {n: torch.zeros_like(t) for n, t in state.private.items()})
        after = super().aggregate(replace(state, private=hidden), updates, env)
        object.__setattr__(self, "_past", {**past, env.round: after.private})
        return replace(after, private=state.private)


@dataclass(frozen=True)
class ForgetsRound(Plain):
    """Returns a state that does not say how far it is."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        return ServerState(super().aggregate(state, updates, env).shared)


@dataclass(frozen=True)
class KnowsItself(Plain):
    """Tells clients something through the object, which only one process shares."""

    def init(self, env: Env) -> ServerState:
        object.__setattr__(self, "_factor", 0.99)
        return super().init(env)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        return scaled(result, getattr(self, "_factor", 1.0))


# --- limits ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PullsAtZero(FedProx):
    """Has a floor under its weight."""

    local: LocalSGD = param(QUICK, "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        wired = FedProx(max(self.proximal_weight, 0.1), self.local)
        return wired.client_update(shared, memory, data, env)

    def can_stack(self, task: object) -> bool:
        return False


@dataclass(frozen=True)
class NeverPulls(FedProx):
    """Reads its weight nowhere."""

    local: LocalSGD = param(QUICK, "how clients train")

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return FedProx(0.0, self.local).client_update(shared, memory, data, env)

    def can_stack(self, task: object) -> bool:
        return False


# --- secrets --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SendsPrivate(Plain):
    """Puts the server's secret into the next message, within a larger tensor."""

    def init(self, env: Env) -> ServerState:
        state = super().init(env)
        secret = torch.rand(5, generator=env.generator("secret"))
        return ServerState({**state.shared, "hint": torch.zeros(7)}, {"secret": secret})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        after = super().aggregate(state, updates, env)
        hint = torch.cat([torch.zeros(1), state.private["secret"], torch.zeros(1)])
        return replace(after, shared={**after.shared, "hint": hint})


@dataclass(frozen=True)
class ProbesAloud(Plain):
    """Calls every round but the last a probe, and lets clients learn from it."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, probes=True)

    def is_probe(self, env: Env) -> bool:
        return env.round + 1 < env.num_rounds


@dataclass(frozen=True)
class SendsMemory(Plain):
    """Reveals what a client was to keep, in another precision."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        own = {"diary": TensorSpec((4,), torch.float64)}
        return {**super().expected_update(shared, env), **own}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        own = memory.get("own", torch.rand(4, generator=env.generator("own")))
        return replace(with_tensor(result, "diary", own.double()), memory={"own": own})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        after = super().aggregate(state, updates, env)
        return replace(after, shared={n: t for n, t in after.shared.items() if n != "diary"})
