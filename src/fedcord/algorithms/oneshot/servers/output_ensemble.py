"""Every member classifies with its own prototypes, and what they say is averaged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs, pack
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.servers.aggregator import Members
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.core.contract import Env
from fedcord.core.tensors import Tensors

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

    def fuse(self, members: Members, anchors: Tensor | None, env: Env) -> dict[str, Tensor]:
        """All encoders, `fused.weights` [K] and `own.<place>` [C, D]; feature sizes may differ."""
        own = {f"own.{place}": m.prototypes for place, m in enumerate(members.values())}
        models = pack({client: member.model for client, member in members.items()}, env)
        return {**models, **own, WEIGHTS: member_weights(members, self.weighting)}

    def predict(self, result: Tensors, inputs: Tensor, env: Env) -> Tensor:
        """Mean scores [B, C], or logarithms of mean probabilities, which cross-entropy reads."""
        weights, mean = result[WEIGHTS].tolist(), torch.zeros(())
        with torch.inference_mode():
            said = member_outputs(result, inputs, env, features_of, self.batch_norm)
            for place, features in said:
                scores = F.normalize(features, dim=1) @ result[f"own.{place}"].T
                heard = scores if self.averages == "scores" else scores.softmax(dim=1)
                mean = mean + weights[place] * heard
            if self.averages == "scores":
                return mean
            return mean.clamp(min=torch.finfo(mean.dtype).tiny).log()
