"""Federated averaging in which a client that makes more steps does not count more.

Reference: Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization", NeurIPS 2020.

Travels: down the model; up the model, the number of examples, and how many gradients the client's
way adds up (one number). Stays: nothing.

| paper | here |
|---|---|
| p_i | share of the examples of the round's clients |
| τ_i, ρ | number of steps of a client; `local.momentum` |
| ‖a_i‖₁ | `steps`; see `kit.steps` |
| d_i | (x − y_i) / (η ‖a_i‖₁) |
| τ_eff = Σ p_i ‖a_i‖₁ | mean of `steps` |
| x − τ_eff η Σ p_i d_i | the new model |

Deviations: batch-norm statistics are no weights and are averaged. The paper's momentum at the
server and its proximal solver are not built; weight decay counts as part of the loss.

Limits: with equal steps, such as `local.steps`, it is FedAvg bit for bit. The bias of unequal steps
goes; that of unequal curvatures, which vanishes with η, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import AveragesModels, fine_tuning_review, model_spec
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.algorithms.kit.steps import gradient_weight, needs_sgd
from fedcord.algorithms.kit.trained_weights import trained_weights
from fedcord.core.contract import (
    ClientId,
    ClientResult,
    Env,
    Review,
    ServerState,
    Traits,
    Update,
    Updates,
)
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

STEPS = "steps"


@dataclass(frozen=True)
class FedNova(AveragesModels):
    """Federated normalised averaging."""

    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return replace(self.traits_of_averaging(), looks_through_network=unchanged, stacks=True)

    def review(self, task: Task) -> Review:
        """Whether the way of a client adds up its gradients."""
        return (
            review_of_parts(self, task)
            + fine_tuning_review(self)
            + needs_sgd(self.local, "fednova")
        )

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local)

    def expected_update(self, shared: Tensors, env: Env) -> dict[str, TensorSpec]:
        """A model like the one sent, and a number."""
        return {**model_spec(shared), STEPS: TensorSpec((), torch.float32)}

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
            weight = torch.tensor(gradient_weight(self.local, len(data.train)))
            tensors = {**result.update.tensors, STEPS: weight}
            sent.append(ClientResult(replace(result.update, tensors=tensors)))
        return sent

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The mean of the ways of equal length, as long as the clients' are on average."""
        before = trained_weights(state.shared, env.task)
        lengths: list[tuple[ClientId, Update]] = []
        mean = self.combine.join(_of_equal_length(updates, before, lengths), state.shared)
        length = float(self.combine.join(iter(lengths), {STEPS: torch.zeros(())})[STEPS])
        reference = _reference(lengths)
        if reference and length != reference:
            for name, start in before.items():
                mean[name] = start + (length / reference) * (mean[name] - start)
        return state.next(mean)


def _of_equal_length(
    updates: Updates, before: Tensors, lengths: list[tuple[ClientId, Update]]
) -> Updates:
    """Models as if everybody had made as many steps as the first; their steps go to `lengths`.

    The common length is set right afterwards; without it nothing need be held back until the mean
    length is known, and clients of equal steps keep their bits.
    """
    for client, update in updates:
        model = dict(update.tensors)
        steps = {STEPS: model.pop(STEPS)}
        lengths.append((client, replace(update, tensors=steps)))
        own, reference = float(steps[STEPS]), _reference(lengths)
        if own > 0 and own != reference:
            for name, start in before.items():
                model[name] = start + (reference / own) * (model[name] - start)
        yield client, replace(update, tensors=model)


def _reference(lengths: list[tuple[ClientId, Update]]) -> float:
    """The steps of the first client that made any; 0 when none did."""
    return next((n for _, u in lengths if (n := float(u.tensors[STEPS])) > 0), 0.0)
