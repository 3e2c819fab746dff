"""A global model from which one step on a client's own data leads to a good model for it.

Reference: Fallah et al., "Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach", NeurIPS 2020 (arXiv 2002.07948).

Travels: down the global model; up the model and the number of examples. Stays: after the last
round, the model adapted to the client.

| paper | here |
|---|---|
| α | `adaptation_lr` |
| β | `local.lr` |
| τ | steps by `local.epochs` or `local.steps` |
| δ | `difference` |
| D, D', D'' | batches of the streams `adaptation`, `batches`, `curvature` |

With w' = w − α ∇f(w; D), a step descends (I − α ∇²f(w; D'')) ∇f(w'; D'): `second_order = "none"`
drops the Hessian (FO), `"hessian-free"` (HF) has its product with v = ∇f(w'; D') from the
difference of two gradients, [∇f(w + δv; D'') − ∇f(w − δv; D'')] / 2δ.

Deviations: a client's step to its own model is on one batch, as in training, or on several
(`adaptation_steps`). Clients count by their numbers of examples; in the paper they count alike.
Statistics of batch normalisation follow every gradient that is taken.

Limits: α = 0 is FedAvg, bit for bit. HF is the gradient of f(w − α ∇f(w)) as δ → 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.cross_entropy_training import train_received
from fedcord.algorithms.kit.local_sgd import LocalSGD, Loss
from fedcord.algorithms.kit.model_exchange import (
    MODEL,
    AveragesModels,
    cross_entropy,
    fine_tune,
    model_update,
    received_model,
)
from fedcord.algorithms.kit.pull import trained, trained_values
from fedcord.algorithms.personal.meta_gradient import at_batch, load_values, meta_gradient
from fedcord.core.contract import ClientResult, Combination, Env, Traits
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import tensors_of
from fedcord.core.tensors import Tensors, prefixed


@dataclass(frozen=True)
class PerFedAvg(AveragesModels):
    """Personalised federated averaging by meta-learning."""

    adaptation_lr: float = param(
        0.01,
        "of the step to a client's own model (paper: α)",
        at_least=0,
        space=(0.001, 0.1, "log"),
    )
    adaptation_steps: int = param(1, "steps to a client's own model after the run", at_least=1)
    second_order: str = param(
        "none", "the Hessian's part in a step", choices=("none", "hessian-free")
    )
    difference: float = param(0.001, "of weights for hessian-free (paper: δ)", above=0)
    local: LocalSGD = param(LocalSGD(), "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def traits(self) -> Traits:
        """There is a step to a model of its own, unless it has no length."""
        makes_own = self.adaptation_lr > 0 or self.finetune_epochs > 0
        return replace(
            self.traits_of_averaging(),
            personalizes=makes_own,
            looks_through_network=self.local.augment == "none",
            sums_suffice=self.combine.needs_only is not None,
        )

    def needs_only(self, env: Env) -> Combination | None:
        """The mean of the clients' models, unless they are joined by a robust rule."""
        return self.combine.needs_only

    def client_update(
        self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
    ) -> ClientResult:
        """Local descent of the loss after adaptation."""
        if self.adaptation_lr == 0:
            return train_received(self.local, shared, [data], [env])[0]
        network = received_model(shared, env)
        loss = self._adapted_loss(data, env)
        metrics = self.local.train(network, data.train, loss, env)
        return ClientResult(model_update(network, data, metrics))

    def personalize(self, shared: Tensors, memory: Tensors, data: ClientData, env: Env) -> Tensors:
        """The global model adapted to the client, and fine-tuned if that is asked for."""
        network = received_model(shared, env)
        if self.adaptation_lr > 0:
            step = LocalSGD(
                steps=self.adaptation_steps,
                batch_size=self.local.batch_size,
                lr=self.adaptation_lr,
                augment=self.local.augment,
            )
            step.train(network, data.train, cross_entropy, replace(env, round=env.num_rounds))
        if self.finetune_epochs > 0:
            fine_tune(self, network, data, env)
        return {**memory, **prefixed(MODEL, tensors_of(network))}

    def _adapted_loss(self, data: ClientData, env: Env) -> Loss:
        """The loss at w', whose gradient is that of the paper."""
        inputs_of, labels_of = self.local.input_source(data.train, env), data.train.labels
        purposes = ["adaptation"] + ["curvature"] * (self.second_order == "hessian-free")
        streams = [self.local.batches(len(labels_of), env.generator(p)) for p in purposes]

        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            drawn = [next(stream) for stream in streams]
            first, *third = (
                at_batch(network, inputs_of(rows), labels_of[rows].to(env.task.device))
                for rows in drawn
            )
            second, start = at_batch(network, inputs, labels), trained_values(network)
            rates = self.adaptation_lr, self.difference
            value, descent = meta_gradient(start, first, second, *rates, *third)
            load_values(network, start)
            # the value of one thing, with the gradient of another
            along = torch.stack(
                [(w * g).sum() for w, g in zip(trained(network), descent, strict=True)]
            ).sum()
            return value + (along - along.detach())

        return loss
