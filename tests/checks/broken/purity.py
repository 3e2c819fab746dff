"""Algorithms that hide state, use global randomness or edit what they are given."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fedcord.algorithms.kit.model_exchange import cross_entropy, received_model
from fedcord.core.contract import (
    ClientResult,
    Env,
    ServerState,
    Update,
    Updates,
)
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, prefixed
from tests.checks.broken.changes import scaled
from tests.checks.sound import Plain


@dataclass(frozen=True)
class CountsCalls(Plain):
    """Hides a counter on the object."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        calls = getattr(self, "_calls", 0) + 1
        object.__setattr__(self, "_calls", calls)
        return scaled(super().client_update(shared, memory, data, env), 1 + 1e-3 * calls)


@dataclass(frozen=True)
class DrawsGlobally(Plain):
    """Moves a global generator, and does not even use the number."""

    library: str = "torch"

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        draws = {"torch": torch.rand, "numpy": np.random.rand, "random": random.random}
        draw: Any = draws[self.library]
        draw(1) if self.library == "torch" else draw()
        return super().aggregate(state, updates, env)


@dataclass(frozen=True)
class SeedsGlobally(Plain):
    """Seeds the global generator, as scripts do."""

    def init(self, env: Env) -> ServerState:
        torch.manual_seed(0)
        return super().init(env)


@dataclass(frozen=True)
class IgnoresSeed(Plain):
    """Always the same draws, whatever the run's seed."""

    def init(self, env: Env) -> ServerState:
        return super().init(replace(env, seed=0))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        return super().client_update(shared, memory, data, replace(env, seed=0))


@dataclass(frozen=True)
class EditsShared(Plain):
    """Uses the received tensors as its own."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        shared["model.head.bias" if "model.head.bias" in shared else min(shared)].mul_(0.9)
        return result


@dataclass(frozen=True)
class EditsData(Plain):
    """Augments the client's data where it lies."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        data.train.inputs.add_(1)
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class EditsUpdates(Plain):
    """Sums into the first update that arrives."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = list(updates)
        after = super().aggregate(state, iter(held), env)
        for _, update in held[:1]:
            update.tensors[min(update.tensors)].zero_()
        return after


@dataclass(frozen=True)
class BorrowsNetwork(Plain):
    """Returns the weights of the network that the next client will train."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        network = received_model(shared, env)
        self.local.train(network, data.train, cross_entropy, env)
        tensors = {name: tensor.detach() for name, tensor in network.state_dict().items()}
        return ClientResult(Update(prefixed("model", tensors), weight=len(data.train)))
