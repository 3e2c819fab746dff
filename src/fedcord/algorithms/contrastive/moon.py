"""Federated averaging whose clients' representations stay near the global model's.

Reference: Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021.

Travels: down the model; up the model and the number of examples. Stays: the client's last local
model, replaced after every visit and kept while it is not visited.

| paper | here |
|---|---|
| μ | `contrast_weight` |
| τ | `temperature` |
| z | representation of the model in training |
| z_glob | that of the model received, fixed |
| z_prev | that of the model this client sent last, fixed |

The loss of an example is CE − μ log( e^{cos(z, z_glob)/τ} / (e^{cos(z, z_glob)/τ} +
e^{cos(z, z_prev)/τ}) ).

Deviations: without a projection head by default, so that every method trains the same network;
`head = "projection"` is the authors' model, whose classifier sits on the projection. One previous
model is kept. On the first visit there is none and the loss is plain cross-entropy, as in the
authors' code.

Limits: μ = 0 is FedAvg, bit for bit (without the projection head).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.projection import Projected
from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    answering_model,
    cross_entropy,
    fine_tune,
    first_model,
    network_predictor,
)
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.contract import (
    ClientResult,
    Combination,
    Env,
    Predictor,
    ServerState,
    Traits,
    Update,
)
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import HeldNetwork, load_into, tensors_of
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.vectors import unit

PREVIOUS = "previous"
"""Prefix of the last local model in a client's memory."""


@dataclass(frozen=True)
class MOON(AveragesModels):
    """Model-contrastive federated learning."""

    contrast_weight: float = param(
        5.0, "weight of the contrast (paper: μ)", at_least=0, space=(0.1, 10.0, "log")
    )
    temperature: float = param(0.5, "of the contrast (paper: τ)", above=0)
    head: str = param("none", "what is contrasted", choices=("none", "projection"))
    projection_width: int = param(256, "outputs of the projection head", at_least=1)
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """The user chooses the number of rounds."""
        sums = self.combine.needs_only is not None
        return replace(self.traits_of_averaging(), sums_suffice=sums)

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def init(self, env: Env) -> ServerState:
        """A freshly drawn model, with its projection head where it has one."""
        if self.head == "none":
            return ServerState(first_model(env))
        network = self._projected(env.task.initial_network(env.generator("init")), env)
        network.draw_layers(env.generator("projection"))
        return ServerState(shared=prefixed(MODEL, network.sent_tensors()))

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local training with the contrast to the last local model, where there is one."""
        previous = select(memory, PREVIOUS)
        has_contrast = self.contrast_weight > 0 and len(previous) > 0
        if self.head == "none" and not has_contrast:
            update = FedAvg(self.local).client_update(shared, {}, data, env).update
        else:
            received = select(shared, MODEL)
            network = self._load(env.task.scratch_network(env.client), received, env)
            loss: Loss = cross_entropy
            if has_contrast:
                loss = self._contrast(self._frozen(received, env), self._frozen(previous, env))
            metrics = self.local.train(network, data.train, loss, env)
            update = Update(prefixed(MODEL, _tensors(network)), len(data.train), metrics)
        kept = select(update.tensors, MODEL) if self.contrast_weight > 0 else {}
        return ClientResult(update, prefixed(PREVIOUS, kept))

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The final model, with its projection where it has one, trained by the client alone."""
        network = self._load(env.task.scratch_network(env.client), select(shared, MODEL), env)
        fine_tune(self, network, data, env)
        return {**memory, **prefixed(MODEL, _tensors(network))}

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """The client's own or the global model, through its projection where it has one."""
        network, tensors = env.task.scratch_network(env.client), answering_model(shared, memory)
        if self.head == "none":
            return network_predictor(HeldNetwork(network, tensors))
        projected = self._projected(network, env)
        return network_predictor(HeldNetwork(projected, tensors, projected.unused))

    def _contrast(self, received: nn.Module, previous: nn.Module) -> Loss:
        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            own = features_of(network, inputs)
            with torch.no_grad():
                near = features_of(received, inputs)
                far = features_of(previous, inputs)
            contrast = model_contrast(own, near, far, self.temperature)
            scores: Tensor = network.classify(own)  # type: ignore[operator]
            return F.cross_entropy(scores, labels) + self.contrast_weight * contrast

        return loss

    def _frozen(self, tensors: Tensors, env: Env) -> nn.Module:
        """A network of its own, since the scratch network is the one in training."""
        fresh = env.task.fresh_network()
        return self._load(fresh, tensors, env).requires_grad_(False)

    def _load(self, network: nn.Module, tensors: Tensors, env: Env) -> nn.Module:
        """`network` with these tensors, in evaluation mode."""
        if self.head == "none":
            load_into(network, tensors)
            return network.eval()
        projected = self._projected(network, env)
        projected.load(tensors)
        return projected.eval()

    def _projected(self, network: nn.Module, env: Env) -> Projected:
        return Projected(network, self.projection_width, env.task.num_classes)


def model_contrast(own: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """Mean over examples of −log of the share of `near` among `near` and `far`, a scalar.

    Args:
        own: [B, P] representations in training.
        near: [B, P] of the global model, constants.
        far: [B, P] of the previous local model, constants.
        temperature: τ.
    """
    direction = unit(own)
    gap = (direction * unit(far)).sum(1) - (direction * unit(near)).sum(1)
    return F.softplus(gap / temperature).mean()


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    return network.sent_tensors() if isinstance(network, Projected) else tensors_of(network)
