"""Every member classifies with its own prototypes, and what they say is averaged."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import log_of_mean, member_outputs, pack, weighted_sum
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors, select

WEIGHTS = "fused.weights"


@dataclass(frozen=True)
class OutputEnsemble:
    """Σ w_i z_i P_iᵀ (`logit_ensemble`) or log Σ w_i softmax(z_i P_iᵀ) (`prob_ensemble`).

    Attributes:
        averages: `scores` or `probabilities`.
        weighting: `size` or `uniform`.
        batch_norm: `running` or `batch`.
    """

    averages: str
    weighting: str
    batch_norm: str

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """All encoders, `fused.weights` [K] and `own.<place>` [C, D]; feature sizes may differ."""
        own = {f"own.{place}": m.prototypes for place, m in enumerate(members.values())}
        models = pack({client: member.model for client, member in members.items()}, env)
        return {**models, **own, WEIGHTS: member_weights(members, self.weighting)}

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Mean scores [B, C], or logarithms of mean probabilities, which cross-entropy reads."""
        weights, own = result[WEIGHTS].tolist(), select(result, "own")
        members = member_outputs(result, env, features_of, self.batch_norm)

        def scores(inputs: Tensor) -> Tensor:
            said = (
                (place, F.normalize(features, dim=1) @ own[str(place)].T)
                for place, features in members(inputs)
            )
            if self.averages == "scores":
                return weighted_sum(said, weights)
            heard = ((place, each.softmax(dim=1)) for place, each in said)
            return log_of_mean(weighted_sum(heard, weights))

        return scores
