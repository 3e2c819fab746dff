"""Federated averaging in which clients whose classes are unlike all clients' count less.

Reference: Ye et al., "FedDisco: Federated Learning with Discrepancy-Aware Collaboration", ICML
2023.

Travels: down the model; up the model, the number of examples, and how far the client's class shares
are from equal ones (one number). Stays: nothing.

| paper | here |
|---|---|
| n_k | share of the examples of the round's clients |
| D_k, T | class shares of a client; equal shares |
| d_k = ‖D_k − T‖₂ | `discrepancy` |
| a, b | `discrepancy_weight`, `offset` |
| p_k ∝ ReLU(n_k − a d_k + b) | the weight of a client's model |

Deviations: where that leaves nobody, clients count by their examples. Batch-norm statistics have
the same weights as weights.

Limits: a = b = 0 is FedAvg, bit for bit. All models of a round are held until the last has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import AveragesModels, model_spec
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.core.contract import ClientResult, Env, ServerState, Traits, Update, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

DISCREPANCY = "discrepancy"


@dataclass(frozen=True)
class FedDisco(AveragesModels):
    """Discrepancy-aware collaboration."""

    discrepancy_weight: float = param(
        0.5, "how much unlike class shares cost (paper: a)", at_least=0, space=(0.0, 1.0)
    )
    offset: float = param(0.1, "what every client gets (paper: b)", at_least=0, space=(0.0, 1.0))
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return replace(self.traits_of_averaging(), looks_through_network=unchanged, stacks=True)

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local)

    def expected_update(self, shared: Tensors, env: Env) -> dict[str, TensorSpec]:
        """A model like the one sent, and a number."""
        return {**model_spec(shared), DISCREPANCY: TensorSpec((), torch.float64)}

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy."""
        return self.client_updates(shared, [memory], [data], [env])[0]

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """The same for several clients, in one go where they can stack."""
        results = train_received(self.local, shared, datas, envs)
        sent = []
        for data, result in zip(datas, results, strict=True):
            counts = torch.bincount(data.train.labels, minlength=envs[0].task.num_classes).double()
            unlike = counts / counts.sum().clamp(min=1) - 1 / len(counts)
            tensors = {**result.update.tensors, DISCREPANCY: unlike.norm()}
            sent.append(ClientResult(replace(result.update, tensors=tensors)))
        return sent

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The mean of the clients' models by the weights above."""
        arrived = list(updates)
        weights = self.weights([update for _, update in arrived])
        models = (
            (client, replace(update, weight=weight, tensors=_without_number(update.tensors)))
            for (client, update), weight in zip(arrived, weights, strict=True)
        )
        return state.next(self.combine.join(models, state.shared))

    def weights(self, updates: Sequence[Update]) -> list[float]:
        """What clients count, in units of examples."""
        sizes = [update.weight for update in updates]
        unlike = [max(0.0, float(update.tensors[DISCREPANCY])) for update in updates]
        total = sum(sorted(sizes))
        found = [
            max(0.0, n + total * (self.offset - self.discrepancy_weight * d))
            for n, d in zip(sizes, unlike, strict=True)
        ]
        return found if any(found) else sizes


def _without_number(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name != DISCREPANCY}
