"""Algorithms that keep the contract in ways FedAvg does not: sums, private state, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
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
from fedcord.core.params import param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.weighted_mean import weighted_mean
from tests.checks.registered import QUICK


@dataclass(frozen=True)
class Plain(FedAvg):
    """FedAvg without the stacked fast path, to be changed in one place."""

    local: LocalSGD = param(QUICK, "how clients train")

    def can_stack(self, task: Task) -> bool:
        return False


@dataclass(frozen=True)
class NearestMean:
    """One round, no chance, additive: class sums and counts."""

    traits = Traits(rounds=1, additive=True)

    def review(self, task: Task) -> Review:
        return Review()

    def init(self, env: Env) -> ServerState:
        specs = self.expected_update({}, env)
        return ServerState({name: torch.zeros(spec.shape) for name, spec in specs.items()})

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        classes, size = env.task.num_classes, torch.Size(env.task.input_shape).numel()
        return {
            "class.sum": TensorSpec((classes, size), torch.float32),
            "class.count": TensorSpec((classes,), torch.float32),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        of_class = torch.nn.functional.one_hot(data.train.labels, env.task.num_classes).float()
        inputs = env.task.prepare(data.train.inputs).flatten(1)
        tensors = {"class.sum": of_class.T @ inputs, "class.count": of_class.sum(0)}
        return ClientResult(Update(tensors, weight=len(data.train)))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        total = {name: tensor.clone() for name, tensor in state.shared.items()}
        for _, update in updates:
            for name, tensor in update.tensors.items():
                total[name] += tensor
        mean = total["class.sum"] / total["class.count"].clamp(min=1)[:, None]
        return state.next(total, result={"class.mean": mean})

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        mean = shared["class.mean"]
        return Predictor(lambda inputs: -torch.cdist(inputs.flatten(1), mean))


@dataclass(frozen=True)
class Keeper(Plain):
    """Momentum at the server in private, a memory at clients, and a personal offset at the end."""

    momentum: float = param(0.3, "share of the last step that is added", at_least=0, below=1)

    @property
    def traits(self) -> Traits:
        return replace(super().traits, personalizes=True)

    def init(self, env: Env) -> ServerState:
        state = super().init(env)
        return ServerState(
            state.shared,
            {f"velocity.{n}": torch.zeros_like(t) for n, t in _real(state.shared).items()},
        )

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        update = super().client_update(shared, memory, data, env).update
        labels = torch.bincount(data.train.labels, minlength=env.task.num_classes).double()
        return ClientResult(update, {"seen": memory.get("seen", 0) + labels})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        mean = weighted_mean((u.tensors, u.weight) for _, u in updates)
        velocity = {
            name: self.momentum * state.private[f"velocity.{name}"] + tensor - state.shared[name]
            for name, tensor in _real(mean).items()
        }
        moved = {name: state.shared[name] + step for name, step in velocity.items()}
        return state.next({**mean, **moved}, {f"velocity.{n}": v for n, v in velocity.items()})

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        seen = memory.get("seen", torch.zeros(env.task.num_classes))
        return {**memory, "offset": (0.1 * torch.log1p(seen)).float()}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        common = super().predictor(shared, memory, env)
        offset = memory.get("offset", torch.zeros(env.task.num_classes))
        return replace(common, scores=lambda inputs: common.scores(inputs) + offset)


def _real(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
