"""One model: the common start plus the mean of members' changes, of which a random part is dropped.

Reference: Yu et al., "Language Models are Super Mario: Absorbing Abilities from Homologous Models
as a Free Lunch", ICML 2024 (arXiv 2311.03099).

| paper | here |
|---|---|
| δ_t = θ_t − θ_init | a member's weights and prototypes minus those first sent |
| p, drop rate; rescaling by 1/(1 − p) | `drop` |
| merging by averaging | θ_init + Σ w_i δ̃_i |

Deviations: p is 0.2 by default, as where the authors' examples average two models; of one model
they drop 0.9 and more. Those are small changes that fine-tuning makes to a large language model;
one-shot clients go far from a start that knows nothing, and noise grows with p/(1 − p). Members
weigh by their examples. Statistics of batch normalisation are averaged.

Limits: drop = 0 is `param_avg`, bit for bit. In the mean over draws it is `param_avg` for any drop.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.changes import change_of, changed
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.algorithms.oneshot.servers.param_avg import ParamAvg, fused_scores
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors
from fedcord.ops.merging import thinned


@dataclass(frozen=True)
class Dare:
    """Drop, rescale, average."""

    average: ParamAvg
    drop: float

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """`fused.model.*` and `fused.prototypes` [C, D]."""
        fused = self.average.fuse(members, common, env)
        if self.drop == 0:
            return fused
        weights = member_weights(members, self.average.weighting).double()
        rows = [
            thinned(change_of(m, common.start, env), self.drop, env.at(k).generator("dare"))
            for k, m in members.items()
        ]
        merged = (weights[:, None] * torch.stack(rows)).sum(0)
        return {**fused, **changed(common.start, merged, env)}

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Scores of the one model."""
        return fused_scores(result, env)
