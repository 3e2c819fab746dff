"""Taking an encoder out of a finished head without asking anybody.

Where every encoder has columns of its own, the sums over the remaining features are the remaining
rows and columns of the sums at hand. An encoder's columns are those of its features and of the maps
that the head sees. Each of B blocks, a public one among them, has length 1/√B, so what remains
grows by √(B/(B−1)), or by nothing where blocks are as they come (`joint.scaling=none`):

    G' = S G[kept, kept] S,   Q' = S Q[kept],   S = diag(√(B/(B−1)) …, 1)

The head solved from them is the one that would have been solved without the encoder.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fedcord.algorithms.accord.head import Head
from fedcord.algorithms.accord.joint_features import (
    CHOSEN,
    ENCODER,
    JointFeatures,
    chosen_clients,
)
from fedcord.algorithms.analytic.ledger import LEDGER
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import SUM, summed_stats
from fedcord.algorithms.analytic.wire import encode_stats
from fedcord.core.contract import ClientId, Env, ServerState
from fedcord.core.errors import ConfigError
from fedcord.core.names import clients_listed
from fedcord.core.tensors import prefixed, select
from fedcord.ops.symmetric import pack


def without_encoder(head: Head, state: ServerState, client: ClientId, env: Env) -> ServerState:
    """The state with the encoder gone from what is shared and from the sums, solved anew.

    What the ledger knew of single messages was about other features, so it forgets it: later
    leavers are checked by their numbers of samples alone.

    Raises:
        ConfigError: the encoder is not there, is the only one, or has no columns of its own, or
            the sums may not be used a second time.
    """
    chosen = chosen_clients(state.shared)
    _check(head, chosen, client, env)
    stats = summed_stats(state.private, head.wire)
    shared = {
        name: tensor
        for name, tensor in state.shared.items()
        if not name.startswith(f"{ENCODER}.{client}.")
    }
    shared[CHOSEN] = torch.tensor([other for other in chosen if other != client])
    kept, scale = _kept(head.joint, chosen, client, stats.num_features, env)
    left = SufficientStats(
        pack(stats.gram_matrix()[kept][:, kept] * scale[:, None] * scale),
        stats.moment[kept] * scale[:, None],
        stats.class_count,
        stats.target_square,
        torch.tensor(head.joint.tag(shared, env) * stats.count),
    )
    # sums of packed32 messages are held in float64, and stay so
    as_held = left.tensors() if head.wire == "packed32" else encode_stats(left, head.wire)
    ledger = select(state.private, LEDGER)
    ledger["fingerprint"] = torch.full_like(ledger["fingerprint"], math.nan)
    sums = {**prefixed(SUM, as_held), **prefixed(LEDGER, ledger)}
    return replace(state, shared=shared, private=sums, result=head.result_of(sums))


def _kept(
    joint: JointFeatures, chosen: list[ClientId], client: ClientId, num_features: int, env: Env
) -> tuple[Tensor, Tensor]:
    """Columns that stay [D'], and what each is multiplied by [D'] float64."""
    keep = torch.ones(num_features, dtype=torch.bool)
    keep[joint.block_columns(chosen, env.task, client)] = False
    growth = joint.growth(joint.num_blocks(chosen))
    scale = torch.full((num_features,), growth, dtype=torch.float64)
    scale[-1] = 1.0  # the constant
    return keep.nonzero().flatten(), scale[keep]


def _check(head: Head, chosen: list[ClientId], client: ClientId, env: Env) -> None:
    if client not in chosen:
        raise ConfigError(
            f"{env.said(client)} has no encoder in the model (those of "
            f"{clients_listed(chosen, env.names)} are); leave --drop-encoder out."
        )
    if len(chosen) == 1:
        raise ConfigError(
            f"the encoder of {env.said(client)} is the only one; train again without it."
        )
    if not head.joint.keeps_blocks:
        raise ConfigError(
            "an encoder can only be dropped where it has columns of its own: "
            "joint.combine=concat without projection or expansion; train again without it."
        )
    if head.privacy.is_on:
        raise ConfigError(
            "an encoder cannot be dropped from sums with privacy noise: a second head would need a "
            "budget of its own; train again without it."
        )
