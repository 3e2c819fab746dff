"""Clients send class means of their features besides the model; the nearest mean is the answer.

Reference: Tan et al., "FedProto: Federated Prototype Learning across Heterogeneous Clients", AAAI
2022, in the one-shot form FAFI compares with.

Travels: down the first model; up the trained model, prototypes [C, D] and class counts [C].
Stays: nothing.

| paper | here |
|---|---|
| C_i^(j) | `proto.mean` of client i, row j |
| |D_{i,j}| | `proto.count` |
| C̄^(j) | `fused.prototypes`, row j |
| the set N_j of clients with class j | rows with a positive count |

Deviations: no rounds, so no pull towards global prototypes during training: plain cross-entropy.
The mean over clients is plain by default, as in FAFI's code; the paper weighs by counts. A class
that no client holds scores below every other.

Limits: one client is its own nearest-mean classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedcord.algorithms.kit.class_means import class_means
from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.ensemble import member_outputs, pack, weighted_sum
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL, model_spec
from fedcord.algorithms.kit.outputs import features_of
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    training_settings,
    upload_weights,
)
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import ClientResult, Env, Predictor, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.vectors import nearest_scores
from fedcord.ops.weighted_mean import weighted_mean

MEANS, COUNTS = "proto.mean", "proto.count"
PROTOTYPES, HELD, WEIGHTS = "fused.prototypes", "fused.held", "fused.weights"


@dataclass(frozen=True)
class FedProtoOneShot(SendsOnce):
    """Nearest class mean on the averaged model or on the feature ensemble."""

    fusion: str = param(
        "feature_ensemble", "whose features", choices=("param_avg", "feature_ensemble")
    )
    weighting: str = param("size", "clients' weights in the features", choices=WEIGHTINGS)
    proto_weighting: str = param(
        "uniform", "clients' weights in the class means", choices=("uniform", "counts")
    )
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What decides clients' work."""
        return training_settings(self.local, procedure="cross-entropy once, class means")

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model like the one sent, class means and counts."""
        dim = int(env.task.scratch_network().feature_dim)  # type: ignore[arg-type]
        classes = env.task.num_classes
        return {
            **model_spec(shared),
            MEANS: TensorSpec((classes, dim), torch.float32),
            COUNTS: TensorSpec((classes,), torch.float32, counts=True),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy, then one pass for the class means."""
        return self.client_updates(shared, [memory], [data], [env])[0]

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """The same for several clients, whose training is done in one go where they can stack."""
        trained = train_received(self.local, shared, datas, envs)
        return [_with_means(*each) for each in zip(trained, datas, envs, strict=True)]

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """Networks, global class means [C, D], and which classes anyone holds [C]."""
        models = {client: upload.model for client, upload in uploads.items()}
        counts = torch.stack([u.tensors[COUNTS] for u in uploads.values()])[..., None]  # [K, C, 1]
        share = (counts > 0).double() if self.proto_weighting == "uniform" else counts.double()
        means = torch.stack([u.tensors[MEANS] for u in uploads.values()]).double()
        total = share.sum(0)
        fused = {
            PROTOTYPES: ((share * means).sum(0) / total.clamp(min=1)).float(),
            HELD: total[:, 0] > 0,
            WEIGHTS: torch.tensor(upload_weights(uploads, self.weighting)),
        }
        if self.fusion == "feature_ensemble":
            return {**pack(models, env), **fused}
        weights = fused[WEIGHTS].tolist()
        mean = weighted_mean(zip(models.values(), weights, strict=True))
        return {**prefixed(f"{FUSED}.{MODEL}", mean), **fused}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Minus the mean squared distance to each class mean, [B, C]."""
        features = self._features(shared, env)
        means, held = (shared[name].to(env.task.device) for name in (PROTOTYPES, HELD))
        return Predictor(lambda inputs: nearest_scores(features(inputs), means, held))

    def _features(self, shared: Tensors, env: Env) -> Callable[[Tensor], Tensor]:
        """Prepared inputs to the features [B, D] that class means are compared with."""
        if self.fusion == "param_avg":
            return env.task.held_network(select(shared, f"{FUSED}.{MODEL}")).features
        weights, members = shared[WEIGHTS].tolist(), member_outputs(shared, env, features_of)
        return lambda inputs: weighted_sum(members(inputs), weights)


def _with_means(result: ClientResult, data: ClientData, env: Env) -> ClientResult:
    """A trained client's result with the class means of its network."""
    network = env.task.network_with(select(result.update.tensors, MODEL), env.client)
    with env.task.passes.of(env.client):
        means, counts = class_means(network, data.train, env)
    tensors = {**result.update.tensors, MEANS: means, COUNTS: counts}
    return replace(result, update=replace(result.update, tensors=tensors))
