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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.algorithms.model_exchange import MODEL
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    upload_weights,
)
from fedcord.algorithms.oneshot.servers.ensemble import (
    Output,
    features_of,
    member_outputs,
    pack,
)
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import ClientResult, Env, ServerState
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.ops.nearest import nearest_scores
from fedcord.ops.weighted_mean import weighted_mean

MEANS, COUNTS = "proto.mean", "proto.count"
PROTOTYPES, HELD, WEIGHTS = "fused.prototypes", "fused.held", "fused.weights"
BATCH = 256
"""Examples per forward pass when a client computes its means."""


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
        return {**super().client_settings, "procedure": "cross-entropy once, class means"}

    def expected_update(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """A model like the one sent, class means and counts."""
        dim = int(env.task.scratch_network().feature_dim)  # type: ignore[arg-type]
        classes = env.task.num_classes
        return {
            **super().expected_update(shared, env),
            MEANS: TensorSpec((classes, dim), torch.float32),
            COUNTS: TensorSpec((classes,), torch.float32),
        }

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy, then one pass for the class means."""
        return self._with_means(super().client_update(shared, memory, data, env), data, env)

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """`client_update` of several clients in one go."""
        trained = super().client_updates(shared, memories, datas, envs)
        return [self._with_means(*each) for each in zip(trained, datas, envs, strict=True)]

    def _with_means(self, result: ClientResult, data: ClientData, env: Env) -> ClientResult:
        if COUNTS in result.update.tensors:  # `client_update` took the stacked path
            return result
        network = env.task.network_with(select(result.update.tensors, MODEL), env.client)
        means, counts = class_means(network, data.train, env)
        tensors = {**result.update.tensors, MEANS: means, COUNTS: counts}
        return replace(result, update=replace(result.update, tensors=tensors))

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

    def predict(self, shared: Tensors, memory: Tensors, inputs: Tensor, env: Env) -> Tensor:
        """Minus the mean squared distance to each class mean, [B, C]."""
        with torch.inference_mode():
            if self.fusion == "param_avg":
                network = env.task.network_with(select(shared, f"{FUSED}.{MODEL}"))
                features = features_of(network, inputs)
            else:
                weights = shared[WEIGHTS].tolist()
                features = torch.zeros(())
                for place, own in member_outputs(shared, inputs, env, features_of):
                    features = features + weights[place] * own
            return nearest_scores(features, shared[PROTOTYPES], shared[HELD])


def class_means(
    network: nn.Module,
    examples: Examples,
    env: Env,
    output: Output = features_of,
    width: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean feature of every class [C, D], zero where there is none, and counts [C].

    Another `output` of the network is averaged where its `width` is given.
    """
    classes = env.task.num_classes
    columns = int(network.feature_dim) if width is None else width  # type: ignore[arg-type]
    sums = torch.zeros(classes, columns, dtype=torch.float64)
    with torch.inference_mode():
        for start in range(0, len(examples), BATCH):
            chosen = slice(start, start + BATCH)
            inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
            sums.index_add_(0, examples.labels[chosen], output(network, inputs).cpu().double())
    counts = torch.bincount(examples.labels, minlength=classes)
    return (sums / counts.clamp(min=1)[:, None]).float(), counts.float()
