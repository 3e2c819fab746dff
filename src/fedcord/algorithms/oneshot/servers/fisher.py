"""One model: every weight the mean of members' weights by how sure each is of it.

Reference: Jhunjhunwala et al., "FedFisher: Leveraging Fisher Information for One-Shot Federated
Learning", AISTATS 2024 (arXiv 2403.12329), with the diagonal of the Fisher matrix.

Travels: up, besides the model, one number more for every weight.

| paper | here |
|---|---|
| F_i, diagonal of the Fisher matrix at θ_i | `extra.<weight>`; see `diagonal_fisher` |
| min over θ of Σ n_i (θ − θ_i)' F_i (θ − θ_i) | θ = Σ w_i F_i θ_i / Σ w_i F_i, weight by weight |

    F_i = mean over examples of Σ_c p_c(x) (∂ log p_c(x) / ∂θ)²

Deviations: the authors' code minimises by gradient descent from the mean of the models and keeps
what is best on validation data; with a diagonal the minimum is known. It adds members up without
weights; here they weigh by their examples (`weighting=uniform` does not). `damping` is added to
every F_i, as if it were sure of everything by that much, so that weights nobody is sure of are
averaged: where descent from the mean would leave them. The paper's K-FAC form is what `lpa` is near
to. Statistics of batch normalisation are averaged.

Limits: equal F_i, and `damping` → ∞, give `param_avg`; identical members give that member.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.diagonal_fisher import Certainty
from fedcord.algorithms.oneshot.servers.kronecker import PROTOTYPES
from fedcord.algorithms.oneshot.servers.members import member_weights
from fedcord.algorithms.oneshot.servers.param_avg import MODEL, ParamAvg, fused_scores
from fedcord.algorithms.oneshot.servers.param_avg import PROTOTYPES as FUSED_PROTOTYPES
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class Fisher:
    """The Fisher-weighted mean."""

    average: ParamAvg
    certainty: Certainty

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """`fused.model.*` and `fused.prototypes` [C, D]."""
        fused = self.average.fuse(members, common, env)
        weights = member_weights(members, self.average.weighting).double()
        everyone = list(members.values())
        for name in everyone[0].extra:
            is_prototype = name == PROTOTYPES
            own = [(m.prototypes if is_prototype else m.model[name]).double() for m in everyone]
            sure = [
                w * (m.extra[name].double() + self.certainty.damping)
                for w, m in zip(weights, everyone, strict=True)
            ]
            total = sum(s * t for s, t in zip(sure, own, strict=True)) / sum(sure)
            target = FUSED_PROTOTYPES if is_prototype else f"{MODEL}.{name}"
            fused[target] = torch.as_tensor(total).to(fused[target].dtype)
        return fused

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Scores of the one model."""
        return fused_scores(result, env)
