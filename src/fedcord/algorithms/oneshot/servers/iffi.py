"""Features fused by how informative each member finds the input.

Reference: Zeng et al., FAFI, ICML 2025 (informativeness-aware fusion). Its text gives the idea; the
form of the weights is our reading of it (docs/algorithms/servers.md). `iffi_released` is what the
authors' code does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.feature_ensemble import (
    PROTOTYPES,
    WEIGHTS,
    FeatureEnsemble,
)
from fedcord.algorithms.oneshot.servers.noise import NOISE, informativeness, noise_directions
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class IFFI:
    """F(x) = Σ ω_i(x) f_i(x) with ω_i = d_i/Σ_k d_k.

    Attributes:
        ensemble: weights w_i and prototypes; w_i multiplies d_i, so `uniform` is ω as above.
        noise_samples: noise inputs that d_i is averaged over.
    """

    ensemble: FeatureEnsemble
    noise_samples: int

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """The feature ensemble's tensors and `fused.noise` [K, D]."""
        result = self.ensemble.fuse(members, common, env)
        noise = noise_directions(result, env, self.noise_samples, self.ensemble.batch_norm)
        return {**result, NOISE: noise}

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Cosine to each prototype times its length, [B, C]."""
        weights = result[WEIGHTS].tolist()
        noise, prototypes = (result[name].to(env.task.device) for name in (NOISE, PROTOTYPES))
        members = member_outputs(result, env, features_of, self.ensemble.batch_norm)

        def scores(inputs: Tensor) -> Tensor:
            fused = total = plain = torch.zeros(())
            for place, features in members(inputs):
                omega = weights[place] * informativeness(features, noise[place])[:, None]  # [B, 1]
                fused, total = fused + omega * features, total + omega
                plain = plain + weights[place] * features
            # where no member sees more than noise, none is better than another
            fused = torch.where(total > 0, fused, plain)
            return F.normalize(fused, dim=1) @ prototypes.T

        return scores
