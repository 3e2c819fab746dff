"""One network with two heads: a generic one that is averaged, and a personal one beside it.

Reference: Chen and Chao, "On Bridging Generic and Personalized Federated Learning for Image
Classification", ICLR 2022 (arXiv 2107.00778).

Travels: down and up the network with its generic head, and the number of examples. Stays: the
client's class counts and its personal head.

| paper | here |
|---|---|
| θ, ψ: features and generic head | `model.*` |
| φ_m, personal head | `personal.*` in a client's memory |
| n_{m,c}^γ, balanced softmax | `balance` is γ |

The generic head descends the cross-entropy of scores + γ log n_c, n_c being the client's examples
of class c, so that classes count alike. The personal head descends the cross-entropy of the sum of
both heads' scores; neither features nor generic head hear of it.

Deviations: the personal head is linear (the paper also makes it by a hypernetwork) and starts at
zero, so that a client that has not trained answers as the generic model. With `local.clip` the
gradients of both are clipped together.

The server's test is of the generic model; clients' own tests are of the sum of both heads.

Limits: γ = 0 averages the bits of FedAvg trained by autograd without clipping.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import (
    AveragesModels,
    model_update,
    network_predictor,
    received_model,
)
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.contract import ClientResult, Combination, Env, FeatureView, Predictor, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import load_into, tensors_of
from fedcord.core.tensors import Tensors, prefixed, select

PERSONAL = "personal"
"""Prefix of the personal head in a client's memory."""


@dataclass(frozen=True)
class FedRoD(AveragesModels):
    """Federated robust decoupling."""

    balance: float = param(
        1.0, "strength of the balanced softmax (paper: γ)", at_least=0, space=(0.0, 1.5)
    )
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """Training shows inputs to the network only, unless they are changed first."""
        return replace(
            self.traits_of_averaging(),
            looks_through_network=self.local.augment == "none",
            sums_suffice=self.combine.needs_only is not None,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Both heads train side by side; the personal one is kept."""
        network = received_model(shared, env)
        head = personal_head(network, memory, env)
        counts = torch.bincount(data.train.labels, minlength=env.task.num_classes)
        prior = log_prior(counts, self.balance).to(env.task.device)
        both = nn.ModuleList([network, head])
        metrics = self.local.train(both, data.train, _loss(prior), env)
        update = model_update(network, data, metrics)
        return ClientResult(update, prefixed(PERSONAL, tensors_of(head)))

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The generic model, with the personal head's scores added where there is one."""
        network = env.task.held_network(self.model_of(shared, memory, env), env.client)
        own = select(memory, PERSONAL)
        if not own:
            return network_predictor(network)
        weight, bias = (own[name].to(env.task.device) for name in ("weight", "bias"))

        def scores(inputs: Tensor) -> Tensor:
            features = network.features(inputs)
            return network.classify(features) + F.linear(features, weight, bias)

        return Predictor(scores, features=lambda x: FeatureView(network.features(x), None))


def log_prior(counts: Tensor, balance: float) -> Tensor:
    """γ log n_c of every class [C]: −∞ for classes without examples, unless γ = 0."""
    return counts.double().pow(balance).log().float()


def personal_head(network: nn.Module, memory: Tensors, env: Env) -> nn.Linear:
    """The client's own head as it was left, or zero."""
    kept = select(memory, PERSONAL)
    size = int(network.feature_dim)  # type: ignore[arg-type]
    head: nn.Linear = nn.utils.skip_init(nn.Linear, size, env.task.num_classes)
    load_into(head, kept or {n: torch.zeros_like(t) for n, t in head.state_dict().items()})
    return head.to(env.task.device)


def _loss(prior: Tensor) -> Loss:
    def loss(both: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
        network, head = both.children()
        features = features_of(network, inputs)
        generic: Tensor = network.classify(features)  # type: ignore[operator]
        personal = generic.detach() + head(features.detach())
        return F.cross_entropy(generic + prior, labels) + F.cross_entropy(personal, labels)

    return loss
