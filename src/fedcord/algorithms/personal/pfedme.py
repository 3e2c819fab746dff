"""Clients' own models minimise their loss near a reference, and the references are averaged.

Reference: Dinh et al., "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020 (arXiv
2006.08848).

Travels: down the global model; up the client's reference and its number of examples. Stays: the
client's own model.

| paper | here |
|---|---|
| w, w_i | the global model, and the client's reference, which starts from it |
| θ_i | the client's own model, `model.*` in its memory |
| λ | `proximal_weight` |
| K, and the learning rate of θ | `personal_steps`, `personal_lr` |
| R, |D|, η | steps by `local.epochs` or `local.steps`, `local.batch_size`, `local.lr` |
| β | `server_step` |

For every batch, θ = argmin f(θ) + λ/2 ||θ − w||² is approached by K steps from θ = w, then w
descends the gradient of that minimum, which is λ (w − θ): w ← w − η λ (w − θ).

Deviations: θ is found by a fixed number of steps, as in the authors' experiments, not to an
accuracy ν. Clients count by their numbers of examples. Statistics of batch normalisation follow all
of these steps and are sent with w.

The server's test is of the global model; clients' own tests are of their own.

Limits: with K = 1 the references are those of FedAvg with a learning rate of η λ `personal_lr`, but
for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.descent import sgd
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    cross_entropy,
    model_update,
    received_model,
)
from fedcord.algorithms.kit.pull import pull_towards, trained, trained_values
from fedcord.core.contract import ClientResult, Combination, Env, ServerState, Traits, Updates
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import tensors_of
from fedcord.core.tensors import Tensors, prefixed


@dataclass(frozen=True)
class PFedMe(AveragesModels):
    """Personalised federated learning with Moreau envelopes."""

    proximal_weight: float = param(
        15.0, "pull of the reference (paper: λ)", above=0, space=(1.0, 30.0, "log")
    )
    personal_steps: int = param(5, "steps to the client's own model (paper: K)", at_least=1)
    personal_lr: float = param(
        0.03, "learning rate of the client's own model", above=0, space=(0.003, 0.1, "log")
    )
    server_step: float = param(1.0, "step to the mean (paper: β)", above=0)
    local: LocalSGD = param(LocalSGD(), "how references move")

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
        """The mean of the clients' references, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """The reference is sent; the model near it, for the last batch, is kept."""
        network = received_model(shared, env)
        names = [name for name, p in network.named_parameters() if p.requires_grad]
        own = trained_values(network)

        def envelope(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            loss, own[:] = self.nearby(network, inputs, labels)
            away = [(w - t).square().sum() for w, t in zip(trained(network), own, strict=True)]
            return loss + self.proximal_weight / 2 * torch.stack(away).sum()

        metrics = self.local.train(network, data.train, envelope, env)
        values = [value.cpu() for value in own]
        kept = {**tensors_of(network), **dict(zip(names, values, strict=True))}
        return ClientResult(model_update(network, data, metrics), prefixed(MODEL, kept))

    def nearby(
        self, network: nn.Module, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """θ of a batch after K steps from the reference in `network`, which comes back unchanged.

        Returns:
            The loss before the last step, and θ.
        """
        weights, reference = trained(network), trained_values(network)
        step = sgd(weights, self.personal_lr, 0.0, 0.0)
        pull = pull_towards(network, reference, self.proximal_weight)
        loss = torch.zeros(())
        for _ in range(self.personal_steps):
            loss = cross_entropy(network, inputs, labels)
            gradients = list(torch.autograd.grad(loss, weights))
            pull(gradients)
            step(gradients)
        found = trained_values(network)
        with torch.no_grad():
            for weight, value in zip(weights, reference, strict=True):
                weight.copy_(value)
        return loss.detach(), found

    def aggregate(self, state: ServerState, updates: Updates, env: Env) -> ServerState:
        """A step of β from the global model to the mean of the references."""
        mean = self.combine.join(updates, state.shared)
        if self.server_step == 1:
            return state.next(shared=mean)
        moved = {
            name: torch.lerp(state.shared[name], tensor, self.server_step)
            if tensor.is_floating_point()
            else tensor
            for name, tensor in mean.items()
        }
        return state.next(shared=moved)
