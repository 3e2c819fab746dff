"""Federated averaging whose clients correct every step by how their gradients differ from all.

Reference: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, algorithm 1.

Travels: down the model and the server's control variate; up the model, the moved control variate
and the number of examples. Stays: the client's control variate.

| paper | here |
|---|---|
| x, y_i | `model.*` received and sent |
| c, c_i | `control.*` of what is shared, of the client's memory |
| g_i(y_i) − c_i + c | the gradient of a step |
| option I: c_i⁺ = g_i(x) | `variate = "gradient"`, over all of the client's examples |
| option II: c_i⁺ = c_i − c + (x − y_i) / (K η_l) | `variate = "steps"` |
| Δc_i = c_i⁺ − c_i | sent as c + Δc_i, so that updates have the form of what is shared |
| η_g, η_l | `server_lr`, `local.lr` |

Deviations: clients count by their numbers of examples in both means, as in FedAvg, so that the
optimum is that of all examples; the paper counts them alike, as with `server_mean = "uniform"`. N
is who was heard so far (see `kit.heard`). Local momentum is allowed: option II then divides by the
weight that momentum gives to a gradient, added up over steps, as FedNova does. Gradients of option
I are taken in evaluation mode and batch-norm statistics averaged; the paper has none.

Limits: the variates are zero at first, so round 1 with `server_lr = 1` is FedAvg, bit for bit where
both train one client at a time. A client whose update is lost keeps its new variate, and c is off
by that much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.heard import Heard, counted_alike, noted
from fedcord.algorithms.kit.local_sgd import AdjustGradients, LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    AveragesModels,
    cross_entropy,
    fine_tuning_review,
    first_model,
    model_update,
    received_model,
)
from fedcord.algorithms.kit.steps import gradient_weight, needs_sgd
from fedcord.algorithms.kit.trained_weights import trained_weights
from fedcord.core.contract import ClientResult, Env, Review, ServerState, Traits, Update, Updates
from fedcord.core.declaration import review_of_parts
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select, spec_of

CONTROL = "control"


@dataclass(frozen=True)
class SCAFFOLD(AveragesModels):
    """Stochastic controlled averaging."""

    variate: str = param(
        "steps",
        "a client's new control variate: gradient (option I) or steps (option II)",
        choices=("gradient", "steps"),
    )
    server_lr: float = param(
        1.0, "learning rate of the server (paper: η_g)", above=0, space=(0.1, 1.5)
    )
    server_mean: str = param(
        "examples", "clients' weights on the server", choices=("examples", "uniform")
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        unchanged = self.local.augment == "none"
        return replace(self.traits_of_averaging(), looks_through_network=unchanged)

    def review(self, task: Task) -> Review:
        """Option II reads gradients from the way that was made, which SGD alone allows."""
        own = needs_sgd(self.local, 'variate = "steps"') if self.variate == "steps" else Review()
        return review_of_parts(self, task) + fine_tuning_review(self) + own

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, and a control variate of zero."""
        model = first_model(env)
        zero = {n: torch.zeros_like(t) for n, t in trained_weights(model, env.task).items()}
        return ServerState(shared={**model, **prefixed(CONTROL, zero)})

    def expected_update(self, shared: Tensors, env: Env) -> dict[str, TensorSpec]:
        """A model and a control variate like those sent."""
        return spec_of(shared)

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with corrected steps, then the client's new control variate."""
        common, start = select(shared, CONTROL), trained_weights(shared, env.task)
        own = select(memory, CONTROL) or {n: torch.zeros_like(t) for n, t in common.items()}
        network = received_model(shared, env)
        seen = _gradient(network, data.train, self.local, env) if self.variate == "gradient" else []
        correction = [(common[n] - own[n]).to(env.task.device) for n in start]
        metrics = self.local.train(network, data.train, cross_entropy, env, _add(correction))
        sent = model_update(network, data, metrics)
        weight = gradient_weight(self.local, len(data.train)) * self.local.lr_at(env)
        new = dict(own)
        for place, (name, before) in enumerate(start.items()):
            if seen:
                new[name] = seen[place]
            elif weight:
                new[name] = own[name] - common[name] + (before - sent.tensors[name]) / weight
        moved = {n: common[n] + new[n] - own[n] for n in common}
        tensors = {**sent.tensors, **prefixed(CONTROL, moved)}
        return ClientResult(Update(tensors, sent.weight, metrics), prefixed(CONTROL, new))

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """A step towards the mean model, and the mean of all control variates."""
        weights: dict[int, float] = {}
        if self.server_mean == "uniform":
            updates = counted_alike(updates)
        mean = self.combine.join(noted(updates, weights), state.shared)
        heard = Heard.after(state.private, weights)
        for name, before in trained_weights(state.shared, env.task).items():
            control = f"{CONTROL}.{name}"
            common = state.shared[control]
            mean[control] = heard.moved(common, mean[control] - common)
            mean[name] = mean[name] + (self.server_lr - 1) * (mean[name] - before)
        return state.next(mean, heard.private)


def _add(correction: list[Tensor]) -> AdjustGradients:
    return lambda gradients: torch._foreach_add_(gradients, correction)


def _gradient(network: nn.Module, train: Examples, local: LocalSGD, env: Env) -> list[Tensor]:
    """The mean gradient over all examples, at the network's weights; nothing without examples."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for p in parameters]
    for batch in torch.arange(len(train)).split(local.batch_size):
        inputs = env.task.prepare(train.inputs[batch]).to(env.task.device)
        loss = cross_entropy(network, inputs, train.labels[batch].to(env.task.device))
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        torch._foreach_add_(total, list(gradients), alpha=len(batch) / len(train))
    return [t.cpu() for t in total] if len(train) else []
