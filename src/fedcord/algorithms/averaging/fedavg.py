"""Clients train the global model on their own data; the server averages the results.

Reference: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017.

Travels: down the model; up the model and the number of examples. Stays: nothing.

| paper | here |
|---|---|
| E, B, η | `local.epochs`, `local.batch_size`, `local.lr` |
| n_k | `Update.weight` |
| C (fraction of clients) | the run's `participation` |

Deviations: none from the paper. Batch-norm statistics are averaged like weights (the paper has
none); see `ops.weighted_mean` for the rule.

Limits: one client with all data is centralised SGD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import AveragesModels
from fedcord.algorithms.kit.private_training import ExamplePrivacy
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.core.contract import ClientResult, Combination, Env, Traits, Work
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param, plain
from fedcord.core.privacy import PrivacySpent
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class FedAvg(AveragesModels):
    """Federated averaging."""

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
            shares_work=True,
            sums_suffice=self.combine.needs_only is not None,
            accounts_privacy=self.private.is_on,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def privacy_spent(self, examples: Sequence[int], rounds: int) -> PrivacySpent:
        """What noise in local training guarantees of single examples."""
        return self.private.spent(self.local, examples, rounds)

    def work(self, shared: Tensors, env: Env) -> Work | None:
        """A round of training, for methods that do something else with the same rounds."""
        if self.private.is_on:
            return None
        here = replace(self.local, lr=self.local.lr_at(env), schedule="constant", decay=1.0)
        settings = {"procedure": "cross-entropy", "local": plain(here), "round": env.round}
        return Work(settings, shared)

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local) and not self.private.is_on

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
        return train_received(self.local, shared, datas, envs, private=self.private)
