"""Clients' losses are regularised, more in every round, until their minima lie at the common one.

Reference: Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021.

Travels: down the model; up the model and the number of examples. Stays: at a client its drift so
far; at the server the mean of all drifts.

| paper | here |
|---|---|
| α | `regularisation` |
| ∇L_k(θ_k^{t−1}) | −α s_k, with s_k the client's `drift.*`: the sum of its θ_k − θ over rounds |
| h | −α times the server's `drift.*`, the mean of s_k |
| L_k(θ) − ⟨∇L_k(θ_k^{t−1}), θ⟩ + α/2 ‖θ − θ^{t−1}‖² | the gradient gets α (s_k + θ − θ^{t−1}) |
| θ^t = mean of θ_k − h/α | mean of θ_k + the server's drift |

Sums of drifts in place of gradients are the same up to the factor −α, and α = 0 divides nothing.

Deviations: clients count by their numbers of examples, as in FedAvg, so that the optimum is that of
all examples; the paper counts them alike. m is who was heard so far (see `kit.heard`). A client
makes `local` steps in place of solving its problem exactly; the fixed point is the same. Batch-norm
statistics are averaged.

Limits: α = 0 leaves clients with FedAvg's training, bit for bit where both train one client at a
time; the server then still adds all drifts up. A client whose update is lost keeps its new drift,
and the server's mean is off by that much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedcord.algorithms.kit.heard import Heard, noted
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    AveragesModels,
    cross_entropy,
    model_update,
    received_model,
)
from fedcord.algorithms.kit.trained_weights import trained_weights
from fedcord.core.contract import ClientResult, Env, ServerState, Traits, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, prefixed, select

DRIFT = "drift"


@dataclass(frozen=True)
class FedDyn(AveragesModels):
    """Federated learning with dynamic regularisation."""

    regularisation: float = param(
        0.1, "strength of the regularisation (paper: α)", at_least=0, space=(0.001, 1.0, "log")
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return replace(self.traits_of_averaging(), looks_through_network=unchanged)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training on the regularised loss, then the client's drift."""
        start = trained_weights(shared, env.task)
        drift = select(memory, DRIFT) or {n: torch.zeros_like(t) for n, t in start.items()}
        network = received_model(shared, env)
        trained = [p.detach() for p in network.parameters() if p.requires_grad]
        # s_k − θ^{t−1}, to which a step adds θ
        pull = [(drift[n] - t).to(env.task.device) for n, t in start.items()]

        def bend(gradients: list[Tensor]) -> None:
            torch._foreach_add_(
                gradients, torch._foreach_add(pull, trained), alpha=self.regularisation
            )

        adjust = bend if self.regularisation else None
        metrics = self.local.train(network, data.train, cross_entropy, env, adjust)
        update = model_update(network, data, metrics)
        drifted = {n: drift[n] + update.tensors[n] - t for n, t in start.items()}
        return ClientResult(update, prefixed(DRIFT, drifted))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """The mean of the clients' models, and the mean of all drifts on top of it."""
        weights: dict[int, float] = {}
        mean = self.combine.join(noted(updates, weights), state.shared)
        heard = Heard.after(state.private, weights)
        drift: dict[str, Tensor] = {}
        for name, before in trained_weights(state.shared, env.task).items():
            kept = state.private.get(f"{DRIFT}.{name}", torch.zeros_like(before))
            drift[name] = heard.moved(kept, mean[name] - before)
            mean[name] = mean[name] + drift[name]
        return state.next(mean, {**heard.private, **prefixed(DRIFT, drift)})
