"""Clients' neurons are matched layer by layer before their models are averaged.

Reference: Singh, Jaggi, "Model Fusion via Optimal Transport", NeurIPS 2020.

Travels: down the first model; up the trained model. Stays: nothing.

| paper | here |
|---|---|
| T^(ℓ), transport map of a layer | a permutation per `permutations.Space` |
| Ŵ^(ℓ,ℓ−1), weights aligned with the layer below | `incoming` after earlier spaces were reordered |
| ground metric | squared distance of incoming weights and biases |
| model B, to which A is aligned | the client with most examples |

All layers here are equally wide and all neurons weigh the same, so the optimal transport between
two layers is a permutation (Birkhoff), which `scipy.optimize.linear_sum_assignment` finds exactly.

Deviations: weight-based matching only; the activation-based one needs data the server lacks. Hard
matching, no entropic smoothing. Several models are matched to one reference and averaged at once.
Neurons joined by residual additions share one permutation (the paper averages maps), found from
the layers that first write them; batch-norm parameters and statistics move with their neurons and
do not enter the distance. Means are weighted by examples unless `weighting` = uniform.

Limits: one client is that client; models equal up to the order of neurons are fused exactly; where
no reordering helps, it is `fedavg-oneshot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy, model_update, received_model
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    fused_predictor,
    training_settings,
    upload_weights,
)
from fedcord.algorithms.oneshot.baselines.permutations import Space, Use, neuron_spaces
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import ClientResult, Env, Predictor, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, prefixed
from fedcord.ops.weighted_mean import weighted_mean


@dataclass(frozen=True)
class OTFusion(SendsOnce):
    """Averaging after neurons were matched."""

    start: str = param(
        "common",
        "first weights: one draw for all clients, or each its own, where averaging alone fails",
        choices=("common", "own"),
    )
    weighting: str = param("size", "clients' weights", choices=WEIGHTINGS)
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What decides clients' work."""
        start = {} if self.start == "common" else {"start": self.start}
        return training_settings(self.local, **start)

    def can_stack(self, task: Task) -> bool:
        """The fast path starts all clients from the same weights."""
        return self.start == "common" and can_train_stacked(task, self.local)

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """Local training with cross-entropy."""
        if self.start == "common":
            return train_received(self.local, shared, datas, envs)
        return [self._from_own_start(shared, *each) for each in zip(datas, envs, strict=True)]

    def _from_own_start(self, shared: Tensors, data: ClientData, env: Env) -> ClientResult:
        network = received_model(shared, env)
        drawn = env.task.initial_network(env.generator("init"), env.client)
        network.load_state_dict(drawn.state_dict())
        metrics = self.local.train(network, data.train, cross_entropy, env)
        return ClientResult(model_update(network, data, metrics))

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The weighted mean of the matched models."""
        spaces = neuron_spaces(env.task.scratch_network())
        reference = max(uploads, key=lambda client: (uploads[client].size, -client))
        target = uploads[reference].model
        matched = [
            target if client == reference else matched_to(target, upload.model, spaces)
            for client, upload in uploads.items()
        ]
        weights = upload_weights(uploads, self.weighting)
        return prefixed(FUSED, weighted_mean(zip(matched, weights, strict=True)))

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the fused model."""
        return fused_predictor(shared, env)


def matched_to(reference: Tensors, model: Tensors, spaces: Sequence[Space]) -> dict[str, Tensor]:
    """`model` with its neurons in the order in which they are most like the reference's.

    Spaces are matched in the order of the forward pass, each by those of its writers whose own
    inputs are already in order; it computes the same function as before.
    """
    out = dict(model)
    for place, space in enumerate(spaces):
        if space.is_fixed:
            continue
        later = (s for s in spaces[place + 1 :] if not s.is_fixed)
        unordered = {use.tensor for space in later for use in space.uses if use.axis == 1}
        costs = [
            torch.cdist(incoming(reference, use), incoming(out, use)).square()
            for use in space.uses
            if use.writes and use.tensor not in unordered
        ]
        _, order = linear_sum_assignment(torch.stack(costs).sum(0).numpy())
        for use in space.uses:
            out[use.tensor] = reordered(out[use.tensor], torch.from_numpy(order), use)
    return out


def incoming(model: Tensors, use: Use) -> Tensor:
    """What a tensor holds for each neuron it writes, [neurons, values] in float64."""
    tensor = model[use.tensor].double()
    return tensor.reshape(len(tensor), -1)


def reordered(tensor: Tensor, order: Tensor, use: Use) -> Tensor:
    """`tensor` with the neurons along one axis in the given order."""
    if use.repeats == 1:
        return tensor.index_select(use.axis, order)
    repeats = torch.arange(use.repeats)
    return tensor.index_select(use.axis, (order[:, None] * use.repeats + repeats).flatten())
