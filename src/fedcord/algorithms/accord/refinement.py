"""More local training of an encoder, against the head that everybody agreed on.

With the head W and all other encoders fixed, a client moves its own encoder so that

    || residual − block(x) · W_block ||²,   residual = y − Σ_{other encoders} their part of the head

falls on its own samples, weighted by class where the head's are: the loss the head itself
minimises. Its block is all that the head sees of
it, pooled maps included. Then the head is solved again. What it costs is two more exchanges each
time.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.algorithms.accord.joint_features import (
    JointFeatures,
    chosen_clients,
    received_encoder,
)
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.closed_form import WEIGHT, aligned
from fedcord.algorithms.kit.encoder import encoder_tensors, encoder_with
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from fedcord.core.task import Network
from fedcord.core.tensors import Tensors


def refined_encoder(
    joint: JointFeatures, local: LocalSGD, shared: Tensors, data: Examples, env: Env
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The client's encoder after further training, and the training's metrics.

    Args:
        joint: must keep a block of columns for every encoder.
        local: how to train.
        shared: the chosen encoders, the head and its class weights, if it has any.
        data: the client's training samples.
        env: the client's place; it must be one of the chosen.
    """
    assert env.client is not None
    chosen = chosen_clients(shared)
    columns = joint.block_columns(chosen, env.task, env.client)
    head = aligned(shared, WEIGHT)
    own = head[columns].float().to(env.task.device)
    residual = _residual(joint, shared, data, head, columns, env).to(env.task.device)
    network = encoder_with(env.task, received_encoder(shared, env.client), env.client)
    outputs = joint.layers.outputs(env.task, env.client)
    widths = list(joint.layers.pieces(env.task, env.client).values())
    num_blocks = joint.num_blocks(chosen)
    counted = _counted(shared, data.labels, env)

    def loss(network: nn.Module, inputs: Tensor, numbers: Tensor) -> Tensor:
        block = outputs(cast(Network, network), inputs)
        features = joint.scaled(block, widths, num_blocks, _shortened)
        squared = (residual[numbers] - features @ own).square().sum(dim=1)
        return (squared if counted is None else counted[numbers] * squared).mean()

    # what a sample's residual is depends on which sample it is, so labels are their numbers
    numbered = Examples(data.inputs, torch.arange(len(data)))
    metrics = local.train(network, numbered, loss, env)
    return encoder_tensors(network), metrics


def _counted(shared: Tensors, labels: Tensor, env: Env) -> Tensor | None:
    """How much the head counts each sample, [N] float32; None where it counts all alike."""
    if CLASS_WEIGHT not in shared:
        return None
    return shared[CLASS_WEIGHT][labels].float().to(env.task.device)


def _shortened(rows: Tensor, root: float) -> Tensor:
    """Rows [B, D] of length 1/root, where they are and with gradients."""
    return 1 / root * F.normalize(rows, dim=1, eps=1e-12)


def _residual(
    joint: JointFeatures, shared: Tensors, data: Examples, head: Tensor, columns: slice, env: Env
) -> Tensor:
    """[N, C] float32: targets minus what the head makes of everything but the client's block."""
    others = head.clone()
    others[columns] = 0
    parts = [
        F.one_hot(labels, env.task.num_classes).double() - features @ others
        for features, labels in joint.batches(data, shared, env)
    ]
    return torch.cat([torch.zeros(0, env.task.num_classes, dtype=torch.float64), *parts]).float()
