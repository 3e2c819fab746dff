"""The members' class probabilities, averaged (spec §3, `prob_ensemble`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.servers.aggregator import Members
from fedcord.algorithms.oneshot.servers.output_ensemble import fuse_outputs, weighted_scores
from fedcord.core.contract import Env
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class ProbEnsemble:
    """Σ w_i softmax(z_i P_iᵀ).

    Attributes:
        weighting: `size` or `uniform`.
        batch_norm: `running` or `batch`.
    """

    weighting: str
    batch_norm: str

    def fuse(self, members: Members, anchors: Tensor | None, env: Env) -> dict[str, Tensor]:
        """Everything every member sent."""
        return fuse_outputs(members, self.weighting, env)

    def predict(self, result: Tensors, inputs: Tensor, env: Env) -> Tensor:
        """Logarithms of the mean probabilities [B, C], so that cross-entropy reads them rightly."""
        mean = torch.zeros(())
        with torch.inference_mode():
            for weight, scores in weighted_scores(result, inputs, env, self.batch_norm):
                mean = mean + weight * scores.softmax(dim=1)
            return mean.clamp(min=torch.finfo(mean.dtype).tiny).log()
