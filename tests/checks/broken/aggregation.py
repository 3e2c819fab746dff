"""Algorithms that add up wrongly, or that some clients break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.core.contract import (
    ClientResult,
    Env,
    Predictor,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.errors import DataError
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.weighted_mean import weighted_mean
from tests.checks.broken.changes import with_tensor
from tests.checks.sound import NearestMean, Plain

# --- aggregation ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LastWins(Plain):
    """Keeps what came last."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        *_, (_, last) = updates
        return state.next({name: tensor.clone() for name, tensor in last.tensors.items()})


@dataclass(frozen=True)
class WeighsOneTooMany(Plain):
    """Divides by one example more than there are."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = list(updates)
        weight = sum(update.weight for _, update in held)
        mean = weighted_mean((update.tensors, update.weight) for _, update in held)
        share = weight / (weight + 1)
        return state.next({n: t * share if t.is_floating_point() else t for n, t in mean.items()})


@dataclass(frozen=True)
class MeanOfMeans(NearestMean):
    """Calls itself additive, and averages class means over clients."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        count = result.update.tensors["class.count"]
        mean = result.update.tensors["class.sum"] / count.clamp(min=1)[:, None]
        return with_tensor(
            with_tensor(result, "class.sum", mean), "class.count", (count > 0).float()
        )


@dataclass(frozen=True)
class MedianCalledMean(Plain):
    """Says that the mean of models is enough, and takes their median."""

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        held = [update.tensors for _, update in updates]
        return state.next({n: torch.stack([t[n] for t in held]).median(0)[0] for n in held[0]})


# --- clients --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpreadOfOne(NearestMean):
    """Sends a standard deviation that one example does not have."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        own = {"data.spread": TensorSpec((), torch.float32)}
        return {**super().expected_update(shared, env), **own}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        inputs = env.task.prepare(data.train.inputs).flatten(1).mean(1)
        spread = ((inputs - inputs.mean()).square().sum() / (len(inputs) - 1)).sqrt()
        result = super().client_update(shared, memory, data, env)
        return with_tensor(result, "data.spread", spread)

    traits = Traits(rounds=1)


@dataclass(frozen=True)
class DividesByZero(Plain):
    """Crashes on a client with one example."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        return replace(
            result, update=replace(result.update, metrics={"rate": 1 / (len(data.train) - 1)})
        )


@dataclass(frozen=True)
class FailsOnNothing(NearestMean):
    """Asks an empty tensor for its largest value."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        assert int(data.train.labels.max()) < env.task.num_classes
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class RefusesNothing(NearestMean):
    """Not broken: says clearly that it cannot work without examples."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        if not len(data.train):
            raise DataError(f"client {env.client} holds no example; leave it out.")
        return super().client_update(shared, memory, data, env)


@dataclass(frozen=True)
class RaggedPrototypes(NearestMean):
    """Sends rows of the classes a client has, and nothing of others."""

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        size = torch.Size(env.task.input_shape).numel()
        spec = TensorSpec((size,), torch.float32)
        return {f"proto.{number}": spec for number in range(env.task.num_classes)}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        inputs, labels = env.task.prepare(data.train.inputs).flatten(1), data.train.labels
        rows = {
            f"proto.{number}": inputs[labels == number].mean(0)
            for number in range(env.task.num_classes)
            if bool((labels == number).any())
        }
        return ClientResult(Update(rows, weight=len(labels)))

    def init(self, env: Env) -> ServerState:
        specs = self.expected_update({}, env)
        return ServerState({name: torch.zeros(spec.shape) for name, spec in specs.items()})

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        sums: dict[str, Tensor] = {}
        weight: dict[str, float] = {}
        for _, update in updates:
            for name, row in update.tensors.items():
                sums[name] = sums.get(name, torch.zeros_like(row)) + update.weight * row
                weight[name] = weight.get(name, 0.0) + update.weight
        return state.next({**state.shared, **{n: t / weight[n] for n, t in sums.items()}})

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        rows = torch.stack([shared[f"proto.{n}"] for n in range(env.task.num_classes)])
        return Predictor(lambda inputs: -torch.cdist(inputs.flatten(1), rows))

    traits = Traits(rounds=1)


@dataclass(frozen=True)
class SendsGraph(NearestMean):
    """Forgets to detach, so that the update drags its graph along."""

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        result = super().client_update(shared, memory, data, env)
        total = result.update.tensors["class.sum"].clone().requires_grad_()
        return with_tensor(result, "class.sum", total * 1)
