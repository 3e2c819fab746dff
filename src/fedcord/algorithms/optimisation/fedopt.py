"""Federated averaging whose server takes the clients' mean change for a gradient, and descends.

Reference: Reddi et al., "Adaptive Federated Optimization", ICLR 2021 (`fedadam`, `fedyogi`,
`fedadagrad`); Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated
Visual Classification", 2019 (`fedavgm`).

Travels: down the model; up the model and the number of examples. Stays: nothing at clients; the
server keeps one moment per weight (momentum) or two.

| paper | here |
|---|---|
| Δ_t | mean of the clients' models − the model they received |
| η, η_l | `server_lr`, `local.lr` |
| β of FedAvgM, β₁ | `momentum` |
| β₂, τ | `decay`, `adaptivity` |
| v_{−1} | τ² |

The equations are in `ops.server_step`. There is no bias correction, as in the paper.

Deviations: clients count by their numbers of examples, as in FedAvg (algorithm 1 of Reddi et al.
counts them alike; their experiments weight them). Batch-norm statistics are no weights and are
averaged. FedAvgM's velocity is the plain one, not Nesterov's.

Limits: `rule = "momentum"` with `momentum = 0` and `server_lr = 1` is FedAvg, bit for bit; so is
the first round of FedAvgM with `server_lr = 1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import AveragesModels
from fedcord.algorithms.kit.stacked_mlp import can_train_stacked
from fedcord.algorithms.kit.trained_weights import trained_weights
from fedcord.core.contract import ClientResult, Combination, Env, ServerState, Traits, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.ops.server_step import RULES, ServerRule, server_step


@dataclass(frozen=True)
class FedOpt(AveragesModels):
    """Federated averaging with an optimiser at the server."""

    rule: str = param("adam", "the server's optimiser", choices=RULES)
    server_lr: float = param(
        0.03, "learning rate of the server (paper: η)", above=0, space=(0.003, 1.0, "log")
    )
    momentum: float = param(
        0.9, "share of the past in a step (paper: β, β₁)", at_least=0, below=1, space=(0.0, 0.99)
    )
    decay: float = param(
        0.99, "share of the past in squares (paper: β₂); adam, yogi", at_least=0, below=1
    )
    adaptivity: float = param(
        1e-3, "what is added to the root of squares (paper: τ); adaptive rules", above=0
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

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
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def can_stack(self, task: Task) -> bool:
        """Whether the network and settings are plain enough to train clients in one go."""
        return can_train_stacked(task, self.local)

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
        return train_received(self.local, shared, datas, envs)

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """A step towards the mean of the clients' models."""
        averaged = self.combine.join(updates, state.shared)
        rule = ServerRule(
            self.rule,
            self.server_lr,
            self.momentum,
            self.decay,
            self.adaptivity,
            second_start=self.adaptivity**2,
        )
        before = trained_weights(state.shared, env.task)
        after, moments = server_step(rule, before, averaged, state.private)
        return state.next({**averaged, **after}, moments)
