"""IFFI as the authors' code does it: uniform fusion in disguise.

The released code averages d_i over clients before it multiplies the summed features. That leaves
one factor per input, which normalisation removes: noise and sizes have no effect. It is kept so
that published numbers can be read rightly; `uniform` weighting of `feature_ensemble` gives the
same predictions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs, num_members
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.feature_ensemble import PROTOTYPES
from fedcord.algorithms.oneshot.servers.iffi import IFFI
from fedcord.algorithms.oneshot.servers.noise import NOISE, informativeness
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class IFFIReleased:
    """F(x) = (1/K Σ_k d_k(x)) · Σ_i f_i(x)."""

    iffi: IFFI

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """As `IFFI`."""
        return self.iffi.fuse(members, common, env)

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Cosine to each prototype times its length, [B, C]."""
        noise, prototypes = (result[name].to(env.task.device) for name in (NOISE, PROTOTYPES))
        size = num_members(result)
        members = member_outputs(result, env, features_of, self.iffi.ensemble.batch_norm)

        def scores(inputs: Tensor) -> Tensor:
            summed = factor = torch.zeros(())
            for place, features in members(inputs):
                summed = summed + features
                factor = factor + informativeness(features, noise[place])
            fused = factor[:, None] / size * summed
            return F.normalize(fused, dim=1) @ prototypes.T

        return scores
