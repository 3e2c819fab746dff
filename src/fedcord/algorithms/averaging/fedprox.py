"""Federated averaging whose clients are pulled back towards the weights they started from.

Reference: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| μ | `proximal_weight` |
| w^t | the model received at the start of the round |

The objective is CE + μ/2 Σ ||θ − θ_global||² over trained weights, buffers excluded. Its gradient
μ (θ − θ_global) is added in closed form, which is the same and costs no graph.

Deviations: clients always do their full local work (the paper also allows less for slow clients).
The reported `train_loss` is the cross-entropy alone, so that it compares with FedAvg's.

Limits: μ = 0 is FedAvg, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import AdjustGradients, LocalSGD
from fedcord.algorithms.kit.model_exchange import AveragesModels
from fedcord.algorithms.kit.private_training import ExamplePrivacy
from fedcord.algorithms.kit.pull import pull_towards, trained_values
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.core.contract import ClientResult, Combination, Env, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.privacy import PrivacySpent
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class FedProx(AveragesModels):
    """Federated averaging with a proximal term."""

    proximal_weight: float = param(
        0.01, "strength of the pull (paper: μ)", at_least=0, space=(0.001, 1.0, "log")
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")
    private: ExamplePrivacy = param(
        ExamplePrivacy(), "noise that hides examples, if any", unwritten=True
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return replace(
            self.traits_of_averaging(),
            looks_through_network=unchanged,
            stacks=True,
            sums_suffice=self.combine.needs_only is not None,
            accounts_privacy=self.private.is_on,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def privacy_spent(self, examples: Sequence[int], rounds: int) -> PrivacySpent:
        """What noise in local training guarantees of single examples."""
        return self.private.spent(self.local, examples, rounds)

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local) and not self.private.is_on

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with cross-entropy and the proximal pull."""
        return self.client_updates(shared, [memory], [data], [env])[0]

    def client_updates(
        self,
        shared: Tensors,
        memories: Sequence[Tensors],
        datas: Sequence[ClientData],
        envs: Sequence[Env],
    ) -> list[ClientResult]:
        """The same for several clients, in one go where they can stack."""
        return train_received(
            self.local, shared, datas, envs, self.proximal_weight, self._pull_back, self.private
        )

    def _pull_back(self, network: nn.Module) -> AdjustGradients:
        """Adds μ (θ − θ_global) to gradients, where clients train one by one."""
        return pull_towards(network, trained_values(network), self.proximal_weight)
