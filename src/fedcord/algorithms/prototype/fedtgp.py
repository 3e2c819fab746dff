"""FedProto with prototypes that the server trains to keep classes apart.

Reference: Zhang et al., "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced
Contrastive Learning for Data and Model Heterogeneity in Federated Learning", AAAI 2024.

Travels: down a trained prototype for each class, from the second round on; up a mean feature for
each class the client holds; with `exchange = "both"` the model and its number of examples too.
Stays: at the server the network that makes prototypes; at the client its model, with
`exchange = "prototypes"`.

| paper | here |
|---|---|
| F (embedding and two layers), P̂^c | `server.*` in the private state, `proto.mean` sent down |
| P_i^c | `proto.mean` sent up |
| δ(t), τ | `adaptive_margin`, `margin_limit` |
| S, η_S, B_S | `server_epochs`, `server_lr`, `server_batch` |
| λ | `prototype_weight` |

Deviations. From the paper: the margin is the largest over classes of the distance to the nearest
other class, between means over clients, as in the authors' code. From that code: distances are
summed directly, since the expanded square can fall below zero; a class nobody has ever held is
neither trained nor sent (`mask_unseen = false` does both, as the authors do); prototypes do not
depend on the order in which clients answer. The † form is not in the paper.

Limits: λ = 0 is local training, or FedAvg bit for bit with `exchange = "both"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.kit.descent import linear_start, sgd
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.diagnostics import measure
from fedcord.algorithms.prototype.exchange import (
    EXCHANGE,
    EXCHANGES,
    ExchangesPrototypes,
    Upload,
)
from fedcord.algorithms.prototype.local_work import (
    answer,
    current_network,
    feature_dims,
    local_prototypes,
    no_prototypes,
    pulled,
    train,
)
from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.contract import METRIC, ClientResult, Env, ServerState
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select
from fedcord.losses.margin_contrast import margin_contrast
from fedcord.ops.vectors import nearest_gaps

SERVER = "server"
"""Prefix of the prototype network in the private state."""


@dataclass(frozen=True)
class FedTGP(ExchangesPrototypes):
    """Trainable global prototypes."""

    exchange: str = param("prototypes", EXCHANGE, choices=EXCHANGES)
    prototype_weight: float = param(
        10.0, "pull towards prototypes (paper: λ)", at_least=0, space=(1.0, 100.0, "log")
    )
    margin_limit: float = param(100.0, "largest margin (paper: τ)", at_least=0)
    server_epochs: int = param(100, "server's passes over uploads (paper: S)", at_least=1)
    server_lr: float = param(0.01, "server's learning rate (paper: η_S)", above=0)
    server_batch: int = param(10, "prototypes per step of the server (paper: B_S)", at_least=1)
    mask_unseen: bool = param(True, "leave out classes that nobody has held yet")
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def first_knowledge(self, env: Env) -> ServerState:
        """No prototype yet; the network that will make them, freshly drawn."""
        drawn = first_generator(env.task.num_classes, feature_dims(env.task)[0], env)
        return ServerState(no_prototypes(env).tensors(), prefixed(SERVER, drawn))

    def asked_for(self, env: Env) -> dict[str, TensorSpec]:
        """Prototypes of the client's classes."""
        return Prototypes.spec(env.task.num_classes, feature_dims(env.task)[0])

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with the pull, then one pass for the prototypes."""
        network = current_network(shared, memory, env)
        loss = pulled(Prototypes.of(shared), self.prototype_weight, env)
        metrics = train(self.local, network, data, loss, env)
        own = local_prototypes(network, data, env)
        return answer(self.traits.keeps_own_models, network, own.tensors(), {}, data, metrics)

    def learn(self, state: ServerState, uploads: Sequence[Upload], env: Env) -> ServerState:
        """Train the prototype network on what clients sent; nothing sent changes nothing."""
        before = Prototypes.of(state.shared)
        tables = [Prototypes.of(upload.tensors) for upload in uploads]
        points = torch.cat([table.values[table.held] for table in tables])
        labels = torch.cat([table.held.nonzero()[:, 0] for table in tables])
        if not len(points):
            return state.next(before.tensors())
        margin = adaptive_margin(joined(tables), self.margin_limit)
        seen = before.held.clone()
        seen[labels] = True
        seen |= not self.mask_unseen
        weights = {n: t.clone() for n, t in select(state.private, SERVER).items()}
        loss = self._train(weights, points, labels, margin, seen, env)
        made = torch.where(seen[:, None], generated(weights), 0.0)
        after = Prototypes(made, seen)
        metrics = {"margin": torch.tensor(margin), "server_loss": torch.tensor(loss)}
        private = {
            **prefixed(SERVER, weights),
            **measure(tables, before, after),
            **prefixed(METRIC, metrics),
        }
        return state.next(after.tensors(), private)

    def known(self, shared: Tensors) -> Prototypes:
        """The trained prototypes."""
        return Prototypes.of(shared)

    def _train(
        self,
        weights: dict[str, Tensor],
        points: Tensor,
        labels: Tensor,
        margin: float,
        candidates: Tensor,
        env: Env,
    ) -> float:
        """Change `weights` in place; the mean loss of the last epoch."""
        parameters = [tensor.requires_grad_() for tensor in weights.values()]
        step = sgd(parameters, self.server_lr, momentum=0, weight_decay=0)
        generator, total = env.generator("server-batches"), 0.0
        for _ in range(self.server_epochs):
            total = 0.0
            order = torch.randperm(len(points), generator=generator)
            for chosen in order.split(self.server_batch):
                centres = generated(weights)
                loss = margin_contrast(points[chosen], labels[chosen], centres, margin, candidates)
                step(list(torch.autograd.grad(loss, parameters)))
                total += float(loss.detach()) * len(chosen)
        for tensor in parameters:
            tensor.requires_grad_(False)
        return total / len(points)


def first_generator(num_classes: int, dim: int, env: Env) -> dict[str, Tensor]:
    """An embedding of classes and two linear layers, drawn as PyTorch draws them."""
    generator = env.generator("prototype-network")
    drawn = {"embedding": torch.randn(num_classes, dim, generator=generator)}
    for layer in ("hidden", "output"):
        drawn[f"{layer}.weight"], drawn[f"{layer}.bias"] = linear_start(dim, dim, generator)
    return drawn


def generated(weights: Tensors) -> Tensor:
    """The prototypes [C, D] of all classes."""
    hidden = weights["embedding"] @ weights["hidden.weight"].T + weights["hidden.bias"]
    return hidden.relu() @ weights["output.weight"].T + weights["output.bias"]


def adaptive_margin(means: Prototypes, limit: float) -> float:
    """The largest distance of a class to its nearest other one, at most `limit`.

    One class alone is infinitely far from the others, so the limit holds.
    """
    gaps = nearest_gaps(means.values[means.held])
    return min(float(gaps.amax()), limit)
