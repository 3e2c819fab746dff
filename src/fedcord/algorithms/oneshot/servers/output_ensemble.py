"""What ensembles of outputs have in common: every member classifies with its own prototypes."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.oneshot.servers.aggregator import Members
from fedcord.algorithms.oneshot.servers.ensemble import features_of, member_outputs, pack
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.core.contract import Env
from fedcord.core.tensors import Tensors

WEIGHTS = "fused.weights"


def fuse_outputs(members: Members, weighting: str, env: Env) -> dict[str, Tensor]:
    """All encoders, `fused.weights` [K] and `own.<place>` [C, D]; feature sizes may differ."""
    own = {f"own.{place}": m.prototypes for place, m in enumerate(members.values())}
    models = pack({client: member.model for client, member in members.items()}, env)
    return {**models, **own, WEIGHTS: member_weights(members, weighting)}


def weighted_scores(
    result: Tensors, inputs: Tensor, env: Env, batch_norm: str
) -> Iterator[tuple[float, Tensor]]:
    """(w_i, z_i P_iᵀ [B, C]) of every member."""
    weights = result[WEIGHTS].tolist()
    for place, features in member_outputs(result, inputs, env, features_of, batch_norm):
        yield weights[place], F.normalize(features, dim=1) @ result[f"own.{place}"].T
