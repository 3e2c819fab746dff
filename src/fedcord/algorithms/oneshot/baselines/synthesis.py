"""Inputs made on the server by training a generator against a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fedcord.algorithms.oneshot.baselines.generator import (
    build_generator,
    draw_weights,
    inputs_problem,
    to_network,
)
from fedcord.core.contract import Review
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param
from fedcord.core.task import Task

SynthesisLoss = Callable[[Tensor, Tensor], Tensor]
"""(inputs a network reads [B, ...], wanted labels [B]) to a number."""


@dataclass(frozen=True)
class Synthesis:
    """How a batch of inputs is made."""

    steps: int = param(20, "generator steps per batch (DENSE: T_G)", at_least=1)
    batch_size: int = param(64, "inputs per batch", at_least=2)
    lr: float = param(1e-2, "Adam's learning rate of generator and noise", above=0)
    latent_dim: int = param(64, "length of the noise", at_least=1)
    width: int = param(16, "channels of the generator", at_least=1)
    reset: bool = param(True, "draw the generator's weights anew for every batch")

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """Whether such inputs can be made."""
        problem = inputs_problem(task)
        return Review() if problem is None else Review(errors=(problem,))


class Synthesizer:
    """Makes batch after batch; all chance comes from the one generator it is given."""

    def __init__(self, settings: Synthesis, task: Task, generator: Generator) -> None:
        self._settings, self._task, self._generator = settings, task, generator
        self._network = build_generator(task, settings.latent_dim, settings.width)
        draw_weights(self._network, generator)
        self.to_network = to_network(task)

    def batch(self, loss: SynthesisLoss) -> tuple[Tensor, Tensor]:
        """Generated inputs [B, ...] of the step with the lowest loss, and their labels [B]."""
        settings, classes = self._settings, self._task.num_classes
        shape = (settings.batch_size, settings.latent_dim)
        noise = torch.randn(shape, generator=self._generator).to(self._task.device)
        noise.requires_grad_()
        labels = torch.randint(classes, (settings.batch_size,), generator=self._generator)
        labels = labels.to(self._task.device)
        if settings.reset:
            draw_weights(self._network, self._generator)
        parameters = [noise, *self._network.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=settings.lr, betas=(0.5, 0.999), fused=True)
        best, lowest = None, float("inf")
        for _ in range(settings.steps):
            generated = self._network(noise)
            value = loss(self.to_network(generated), labels)
            if float(value.detach()) < lowest:
                best, lowest = generated.detach(), float(value.detach())
            gradients = torch.autograd.grad(value, parameters)  # none for teacher and student
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
        if best is None:
            raise NumericalError(
                f"the generator's loss was never finite; lower synthesis.lr (now {settings.lr:g})."
            )
        return best, labels
