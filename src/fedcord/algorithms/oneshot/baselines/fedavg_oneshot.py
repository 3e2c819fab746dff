"""Clients train the same first model to the end, once; the server averages the results.

Reference: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, in the one-shot form FAFI compares with.

Travels: down the first model; up the trained model. Stays: nothing.

| paper | here |
|---|---|
| E, B, η | `local.epochs`, `local.batch_size`, `local.lr` |
| n_k | `Update.weight` |

Deviations: batch-norm statistics are averaged like weights; FAFI's code keeps the first client's.

Limits: one client with all data is centralised SGD; the same as `fedavg` with one round.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    fused_predictor,
)
from fedcord.core.contract import Env, Predictor, ServerState
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, prefixed
from fedcord.ops.weighted_mean import weighted_mean


@dataclass(frozen=True)
class FedAvgOneShot(SendsOnce):
    """Federated averaging with one round of long local training."""

    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The mean of the models, buffers included, weighted by numbers of examples."""
        mean = weighted_mean((upload.model, upload.size) for upload in uploads.values())
        return prefixed(FUSED, mean)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the mean model."""
        return fused_predictor(shared, env)
