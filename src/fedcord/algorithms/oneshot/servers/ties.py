"""One model: the common start plus what members' changes from it agree on.

Reference: Yadav et al., "TIES-Merging: Resolving Interference When Merging Models", NeurIPS 2023
(arXiv 2306.01708).

| paper | here |
|---|---|
| task vector τ_t = θ_t − θ_init | a member's weights and prototypes minus those first sent |
| trim: the top k % of τ_t by magnitude | `density`, over all of a member's weights at once |
| elect: sign of Σ_t τ̂_t | sign of Σ w_i τ̂_i |
| disjoint mean | mean, by w_i, of those τ̂_i that have that sign |
| θ_init + λ τ | `scale` |

Deviations: members weigh by their examples (`weighting=uniform` is the paper's). A sign that is a
draw leaves the start as it is; the authors' code gives it the sign most others have. Statistics of
batch normalisation are no change of the start and are averaged.

Limits: one member with density = 1 and scale = 1 is that member; members that agree in all signs
give `param_avg` with density = 1 and scale = 1; scale = 0 is the start.
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
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors
from fedcord.ops.merging import agreeing_mean, trimmed


@dataclass(frozen=True)
class Trimming:
    """What of members' changes counts."""

    density: float = param(
        0.2, "share of each member's change that is kept (paper: k = 20 %)", above=0, at_most=1
    )
    scale: float = param(1.0, "how far to go from the start (paper: λ)", at_least=0)

    def __post_init__(self) -> None:
        check_params(self)


@dataclass(frozen=True)
class Ties:
    """Trim, elect signs, merge."""

    average: ParamAvg
    trimming: Trimming

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """`fused.model.*` and `fused.prototypes` [C, D]."""
        fused = self.average.fuse(members, common, env)
        rows = torch.stack([change_of(m, common.start, env) for m in members.values()])
        weights = member_weights(members, self.average.weighting).double()
        merged = agreeing_mean(trimmed(rows, self.trimming.density), weights)
        return {**fused, **changed(common.start, self.trimming.scale * merged, env)}

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Scores of the one model."""
        return fused_scores(result, env)
