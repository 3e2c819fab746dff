"""One model: the weighted mean of encoders and prototypes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import held_encoder
from fedcord.algorithms.oneshot.servers.aggregator import Common, Members
from fedcord.algorithms.oneshot.servers.members import check_equal_models, member_weights
from fedcord.core.contract import Env, Scores
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.weighted_mean import weighted_mean

MODEL, PROTOTYPES = "fused.model", "fused.prototypes"


@dataclass(frozen=True)
class ParamAvg:
    """θ = Σ w_i θ_i, prototypes included.

    Attributes:
        weighting: `size` or `uniform`.
        buffers: `mean` averages batch-norm statistics like weights; `first` takes those of the
            first client, which is what the reference does and which fits no averaged weights.
    """

    weighting: str
    buffers: str

    def fuse(self, members: Members, common: Common, env: Env) -> dict[str, Tensor]:
        """`fused.model.*` and `fused.prototypes` [C, D]."""
        check_equal_models(members, env)
        weights = member_weights(members, self.weighting).tolist()
        everyone = list(members.values())
        fused = weighted_mean(
            ({**prefixed(MODEL, m.model), PROTOTYPES: m.prototypes}, w)
            for m, w in zip(everyone, weights, strict=True)
        )
        if self.buffers == "first":
            network = env.task.scratch_network(next(iter(members)))
            kept = {name for name, _ in network.named_buffers()}
            fused |= prefixed(MODEL, {n: t for n, t in everyone[0].model.items() if n in kept})
        return fused

    def scores(self, result: Tensors, env: Env) -> Scores:
        """Scores of the one model."""
        return fused_scores(result, env)


def fused_scores(result: Tensors, env: Env) -> Scores:
    """Scores z Pᵀ [B, C] of the model in `fused.*`, z the normalised features."""
    network = held_encoder(env.task, select(result, MODEL))
    prototypes = result[PROTOTYPES].to(env.task.device)
    return lambda inputs: F.normalize(network.features(inputs), dim=1) @ prototypes.T
