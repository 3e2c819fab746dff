"""Clients train the received model on cross-entropy: the work most methods' clients do.

The one place where it is decided whether several clients train in one go. A client's result has the
same bits either way, so a method gives one client's update as that of a stack of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from fedcord.algorithms.kit.local_sgd import AdjustGradients, LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy, model_update, received_model
from fedcord.algorithms.kit.private_training import ExamplePrivacy
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked, train_stacked
from fedcord.core.contract import ClientResult, Env
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors


def train_received(
    local: LocalSGD,
    shared: Tensors,
    datas: Sequence[ClientData],
    envs: Sequence[Env],
    pull: float = 0.0,
    pull_back: Callable[[nn.Module], AdjustGradients] | None = None,
    private: ExamplePrivacy = ExamplePrivacy(),  # noqa: B008 - frozen
) -> list[ClientResult]:
    """Train every client from the model in `shared`, in one go where it is plain enough.

    Args:
        local: how to train.
        shared: holds the model.
        datas: one per client.
        envs: one per client.
        pull: strength of a proximal pull towards the received model (0: none).
        pull_back: the same pull for clients that train alone, from the network they start with.
        private: noise that hides single examples; then they train one by one and tell no loss.

    Returns:
        One result per client, in the order given.
    """
    if can_train_stacked(envs[0].task, local) and not private.is_on:
        return train_stacked(local, shared, datas, envs, pull)
    results = []
    for data, env in zip(datas, envs, strict=True):
        network = received_model(shared, env)
        adjust = None if pull_back is None or pull == 0 else pull_back(network)
        metrics: dict[str, float] = {}
        if private.is_on:
            private.train(local, network, data.train, env, adjust)
        else:
            metrics = local.train(network, data.train, cross_entropy, env, adjust)
        results.append(ClientResult(model_update(network, data, metrics)))
    return results
