"""Trying an encoder that arrives, before anybody is given it.

Weights can be finite and still overflow as soon as they are multiplied, when training has diverged
or a client means harm. Everybody's sums would then be refused, and nobody could tell by whose
encoder. So the server, which has no data, asks every encoder about one small batch of noise, or
about the first word of the vocabulary where inputs are text.
"""

from __future__ import annotations

from functools import partial

import torch

from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.analytic.features import NETWORK_BATCH, in_full_batches
from fedcord.algorithms.kit.encoder import held_encoder
from fedcord.core.contract import ClientId, Env
from fedcord.core.tensors import Tensors, is_finite
from fedcord.ops.number_format import grow


def why_unusable(encoder: Tensors, joint: JointFeatures, client: ClientId, env: Env) -> str | None:
    """What is wrong with a client's encoder, as it travelled; None: the head can see through it."""
    task = env.task
    if task.reads_numbers:
        size = NETWORK_BATCH, *task.input_shape
        inputs = torch.randn(size, generator=env.generator("trial"))
    else:
        inputs = task.prepare(torch.ones(1, *task.input_shape, dtype=task.input_dtype))
    network = held_encoder(task, grow(encoder), client)
    ask = partial(joint.layers.outputs(task, client), network)
    width = joint.block_width(task, client)
    if is_finite(in_full_batches(ask, width, inputs.to(task.device))):
        return None
    return (
        "sent an encoder that overflows: what it makes of ordinary inputs is not finite; "
        "lower the learning rate or clip gradients."
    )
