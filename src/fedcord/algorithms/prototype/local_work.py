"""What clients of all prototype methods do: start from a model, train it, sum up its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.class_means import class_means
from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import MODEL, cross_entropy, first_network
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked, train_stacked
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.core.contract import ClientResult, Env, Update
from fedcord.core.examples import ClientData
from fedcord.core.task import Network, Task, load_into, tensors_of
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.losses.prototypes import prototype_alignment


def feature_dims(task: Task) -> list[int]:
    """The length of features of every architecture."""
    networks = (task.scratch_network(place) for place in range(len(task.networks)))
    return [int(network.feature_dim) for network in networks]  # type: ignore[arg-type]


def current_network(shared: Tensors, memory: Tensors, env: Env) -> nn.Module:
    """The model received, or the client's own, or what every client starts from."""
    return env.task.network_with(current_model(shared, memory, env), env.client)


def current_model(shared: Tensors, memory: Tensors, env: Env) -> Tensors:
    """The tensors of `current_network`."""
    known = select(shared, MODEL) or select(memory, MODEL)
    return known or tensors_of(first_network(env))


def train(
    local: LocalSGD, network: nn.Module, data: ClientData, loss: Loss | None, env: Env
) -> Mapping[str, float]:
    """Train `network` in place by `loss`, or as FedAvg's clients do when there is nothing to add.

    Returns:
        The metrics of the update.
    """
    if loss is None and can_train_stacked(env.task, local):
        start = prefixed(MODEL, tensors_of(network))
        trained = train_stacked(local, start, [data], [env])[0].update
        load_into(network, select(trained.tensors, MODEL))
        return trained.metrics
    return local.train(network, data.train, loss or cross_entropy, env)


def answer(
    keeps_own: bool,
    network: nn.Module,
    sent: Tensors,
    kept: Tensors,
    data: ClientData,
    metrics: Mapping[str, float],
) -> ClientResult:
    """The result that sends `sent` and keeps `kept`, and keeps or sends the model.

    Args:
        keeps_own: whether the model stays.
        network: as trained.
        sent: what else is sent.
        kept: what else stays.
        data: whose training examples are the update's weight.
        metrics: for the log.
    """
    model = prefixed(MODEL, tensors_of(network))
    update = Update({**({} if keeps_own else model), **sent}, len(data.train), metrics)
    return ClientResult(update, {**(model if keeps_own else {}), **kept})


def classified(network: nn.Module | Network, features: Tensor) -> Tensor:
    """[B, D] features to [B, C] class scores."""
    return cast(Network, network).classify(features)


def no_prototypes(env: Env) -> Prototypes:
    """The table of the task in which no class exists."""
    return Prototypes.none(env.task.num_classes, feature_dims(env.task)[0])


def local_prototypes(
    network: nn.Module, data: ClientData, env: Env, counted: bool = False
) -> Prototypes:
    """The mean feature of each class of the training part, in evaluation mode."""
    means, counts = class_means(network, data.train, env)
    return Prototypes(means, counts.to(torch.int32 if counted else torch.bool))


def pulled(prototypes: Prototypes, weight: float, env: Env) -> Loss | None:
    """Cross-entropy with a pull towards constant prototypes; None when there is no pull."""
    if weight == 0 or not bool(prototypes.held.any()):
        return None
    fixed = prototypes.to(env.task.device)

    def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        features = features_of(network, inputs)
        away = prototype_alignment(features, labels, fixed.values, fixed.held)
        return F.cross_entropy(classified(network, features), labels) + weight * away

    return loss
