"""The members' raw features summed, normalised, and compared with the mean prototypes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs, pack, weighted_sum
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.members import (
    check_equal_features,
    mean_prototypes,
    member_weights,
)
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors

WEIGHTS, PROTOTYPES = "fused.weights", "fused.prototypes"


@dataclass(frozen=True)
class FeatureEnsemble:
    """F(x) = Σ w_i f_i(x); scores = F/‖F‖ · G.

    Attributes:
        weighting: of features, `size` or `uniform`.
        proto_weighting: of prototypes, `uniform` (the paper's) or `counts`.
        batch_norm: `running` or `batch`.
    """

    weighting: str
    proto_weighting: str
    batch_norm: str

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """All encoders, `fused.weights` [K] and `fused.prototypes` [C, D]."""
        check_equal_features(members, env)
        return {
            **pack({client: member.model for client, member in members.items()}, env),
            WEIGHTS: member_weights(members, self.weighting),
            PROTOTYPES: mean_prototypes(members, self.proto_weighting),
        }

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Cosine to each prototype times its length, [B, C]."""
        weights, prototypes = result[WEIGHTS].tolist(), result[PROTOTYPES].to(env.task.device)
        members = member_outputs(result, env, features_of, self.batch_norm)

        def scores(inputs: Tensor) -> Tensor:
            fused = weighted_sum(members(inputs), weights)
            return F.normalize(fused, dim=1) @ prototypes.T

        return scores
