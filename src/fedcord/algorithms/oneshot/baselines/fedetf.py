"""Clients learn features for a fixed classifier whose classes lie as far apart as possible.

Reference: Li et al., "No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning
with Synthetic and Fixed Classifier", ICCV 2023, in the one-shot form FAFI compares with.

Travels: down the first model and the frame [C, C], which a seed could replace; up the trained
model. Stays: nothing.

| paper | here |
|---|---|
| V = √(C/(C−1)) U (I − 11ᵀ/C) | `etf.frame` [C, C], rows are classes |
| projection layer | the network's head, D to C |
| μ̂ | its output, normalised |
| β (temperature) | `scale` |
| balanced feature loss | `loss` = balanced: log class counts added to the scores, 0 counts as 1 |

Deviations: `scale` is a constant; in the paper it is learned, in FAFI's code it is declared and
unused, which is `scale` = 1. One round, so no personal fine-tuning stage.

Limits: one client is that client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs, pack, weighted_sum
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import first_model, model_update, received_model
from fedcord.algorithms.kit.outputs import scores_of
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    ONE_SHOT,
    SendsOnce,
    Uploads,
    training_settings,
    upload_weights,
)
from fedcord.algorithms.oneshot.frames import simplex_frame
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import ClientResult, Env, Predictor, Review, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.weighted_mean import weighted_mean

FRAME, WEIGHTS, MODEL = "etf.frame", "fused.weights", "fused.model"


@dataclass(frozen=True)
class FedETF(SendsOnce):
    """A fixed simplex classifier on a learned projection."""

    fusion: str = param("param_avg", "how models are fused", choices=("param_avg", "logits"))
    loss: str = param("balanced", "what clients minimise", choices=("balanced", "cross_entropy"))
    scale: float = param(1.0, "factor of the cosines (paper: β)", above=0, space=(0.3, 30.0, "log"))
    weighting: str = param("size", "clients' weights", choices=WEIGHTINGS)
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """A single class makes no frame."""
        own = "fedetf needs at least 2 classes: one has nothing to be far from."
        return self.local.review(task) + Review((own,) if task.num_classes < 2 else ())

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, and the frame, the same for every client."""
        classes = env.task.num_classes
        frame = simplex_frame(classes, classes, env.generator("frame"))
        return ServerState(shared={**first_model(env), FRAME: frame})

    @property
    def client_settings(self) -> dict[str, Any]:
        """What decides clients' work."""
        return training_settings(self.local, procedure="fedetf", loss=self.loss, scale=self.scale)

    def can_stack(self, task: Task) -> bool:
        """The fast path knows cross-entropy on plain scores only."""
        return False

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training of encoder and projection."""
        network, frame = received_model(shared, env), shared[FRAME].to(env.task.device)
        counts = torch.bincount(data.train.labels, minlength=env.task.num_classes)
        prior = torch.zeros(env.task.num_classes)
        if self.loss == "balanced":
            prior = counts.clamp(min=1).float().log().to(env.task.device)

        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            scores = frame_scores(network(inputs), frame, self.scale)
            return F.cross_entropy(scores + prior, labels)

        metrics = self.local.train(network, data.train, loss, env)
        return ClientResult(model_update(network, data, metrics))

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The mean model, or all models with their weights [K]."""
        weights = upload_weights(uploads, self.weighting)
        models: Mapping[int, Tensors] = {client: u.model for client, u in uploads.items()}
        if self.fusion == "param_avg":
            return prefixed(MODEL, weighted_mean(zip(models.values(), weights, strict=True)))
        return {**pack(models, env), WEIGHTS: torch.tensor(weights)}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Scaled cosines to the classes of the frame [B, C]."""
        frame = shared[FRAME].to(env.task.device)
        if self.fusion == "param_avg":
            network = env.task.held_network(select(shared, MODEL))
            return Predictor(lambda inputs: frame_scores(network(inputs), frame, self.scale))
        weights, members = shared[WEIGHTS].tolist(), member_outputs(shared, env, scores_of)

        def scores(inputs: Tensor) -> Tensor:
            said = ((k, frame_scores(output, frame, self.scale)) for k, output in members(inputs))
            return weighted_sum(said, weights)

        return Predictor(scores)


def frame_scores(projected: Tensor, frame: Tensor, scale: float) -> Tensor:
    """`scale` times the cosine of projections [B, C] to each class of the frame, [B, C]."""
    return scale * F.normalize(projected, dim=1) @ frame.T
