"""Clients' models answer together: the server keeps all of them.

Reference: Guha, Talwalkar, Smith, "One-Shot Federated Learning", 2019; the two forms are those FAFI
compares with.

Travels: down the first model; up the trained model. Stays: nothing.

| formula | here |
|---|---|
| w_i = n_i/Σn or 1/K | `weighting` = size or uniform |
| Σ w_i logits_i | `fusion` = logits |
| Σ w_i f_i, then the averaged fc | `fusion` = features |

Deviations: Guha et al. select members by validation or size; all clients are members here.
`fusion` = probabilities averages softmax outputs, which neither reference does.

Limits: one client is that client; equal clients give the common one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.algorithms.kit.ensemble import log_of_mean, member_outputs, pack, weighted_sum
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.outputs import features_of, scores_of
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    ONE_SHOT,
    SendsOnce,
    Uploads,
    upload_weights,
)
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import Env, Predictor, ServerState
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.weighted_mean import weighted_mean

WEIGHTS, HEAD = "fused.weights", "fused.head"


@dataclass(frozen=True)
class Ensemble(SendsOnce):
    """All clients' models, fused at their outputs or at their features."""

    fusion: str = param(
        "logits", "what is averaged", choices=("logits", "probabilities", "features")
    )
    weighting: str = param("size", "clients' weights", choices=WEIGHTINGS)
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """All models, their weights [K], and the mean head for `features`."""
        weights = upload_weights(uploads, self.weighting)
        models = {client: upload.model for client, upload in uploads.items()}
        head = head_prefix(env.task.scratch_network())
        mean = weighted_mean(
            ({n.removeprefix(head): t for n, t in model.items() if n.startswith(head)}, weight)
            for model, weight in zip(models.values(), weights, strict=True)
        )
        return {**pack(models, env), **prefixed(HEAD, mean), WEIGHTS: torch.tensor(weights)}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C]; logarithms of the mean probabilities for `probabilities`."""
        weights = shared[WEIGHTS].tolist()
        head = {n: t.to(env.task.device) for n, t in select(shared, HEAD).items()}
        ask = features_of if self.fusion == "features" else scores_of
        members = member_outputs(shared, env, ask)

        def scores(inputs: Tensor) -> Tensor:
            if self.fusion == "probabilities":
                said = ((place, output.softmax(dim=1)) for place, output in members(inputs))
                return log_of_mean(weighted_sum(said, weights))
            mean = weighted_sum(members(inputs), weights)
            if self.fusion == "features":
                return F.linear(mean, head["weight"], head.get("bias"))
            return mean

        return Predictor(scores)
