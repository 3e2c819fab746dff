"""The one local training routine; a method passes it a loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fedcord.algorithms.kit.annealing import annealing
from fedcord.algorithms.kit.descent import Step, adam, clip_gradients, sgd
from fedcord.core.contract import Env, Review
from fedcord.core.errors import ConfigError, NumericalError
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.task import Task

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
AdjustGradients = Callable[[list[Tensor]], None]
"""(network, prepared inputs [B, ...], labels [B]) to the mean loss of the batch."""

PREPARE_AT_ONCE_BYTES = 128 * 2**20
"""Clients up to this size (as float32) are prepared once per visit instead of batch by batch."""


@dataclass(frozen=True)
class LocalSGD:
    """Mini-batch training of one client from the weights it was given.

    Every visit starts a new optimiser: nothing but the weights is carried between rounds.
    """

    epochs: int = param(1, "passes over the client's data per visit (paper: E)", at_least=1)
    steps: int | None = param(None, "steps per visit instead of whole epochs", at_least=1)
    batch_size: int = param(32, "examples per step (paper: B)", above=0)
    optimizer: str = param("sgd", "update rule", choices=("sgd", "adam"))
    lr: float = param(0.05, "learning rate (paper: η)", above=0, space=(0.005, 0.5, "log"))
    momentum: float = param(0.0, "SGD momentum; ignored by adam", at_least=0, below=1)
    weight_decay: float = param(0.0, "L2 penalty on all trained weights", at_least=0)
    clip: float | None = param(None, "largest gradient norm; none when not set", above=0)
    schedule: str = param(
        "constant", "learning rate over rounds", choices=("constant", "cosine", "exponential")
    )
    decay: float = param(0.998, "factor per round of the exponential schedule", above=0, at_most=1)
    visit_schedule: str = param(
        "constant",
        "learning rate over the steps of a visit, times the round's: cosine falls to zero",
        choices=("constant", "cosine"),
        unwritten=True,
    )
    augment: str = param(
        "none",
        "random change of training inputs",
        choices=("none", "standard", "crop", "flip", "simclr", "simclr-batch"),
    )

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """Whether there is such a change of inputs for this kind of data."""
        if self.augment == "none" or self.augment in task.augmentations:
            return Review()
        allowed = ", ".join(("none", *task.augmentations))
        wrong = f"local.augment = '{self.augment}' does not fit this data; allowed: {allowed}."
        return Review(errors=(wrong,))

    def lr_at(self, env: Env) -> float:
        """The learning rate of the round `env` stands in."""
        if self.schedule == "cosine":
            return self.lr * annealing("cosine", env.round / env.num_rounds)
        if self.schedule == "exponential":
            return self.lr * self.decay**env.round
        return self.lr

    def rates(self, num_examples: int) -> list[float]:
        """What the round's learning rate is multiplied by in each step of a visit."""
        steps = self.num_steps(num_examples)
        if self.visit_schedule == "constant":
            return [1.0] * steps
        return [annealing("cosine", step / steps) for step in range(steps)]

    def num_steps(self, num_examples: int) -> int:
        """Steps of a visit to a client with so many examples (paper: τ or K)."""
        if num_examples == 0:
            return 0
        return self.steps or self.epochs * math.ceil(num_examples / self.batch_size)

    def batches(self, num_examples: int, generator: Generator) -> Iterator[Tensor]:
        """Indices of each step's batch: shuffled epochs, the last batch of each may be small."""
        taken, wanted = 0, self.num_steps(num_examples)
        while taken < wanted:
            order = torch.randperm(num_examples, generator=generator)
            for batch in order.split(self.batch_size)[: wanted - taken]:
                yield batch
                taken += 1

    def train(
        self,
        network: nn.Module,
        examples: Examples,
        loss: Loss,
        env: Env,
        adjust_gradients: AdjustGradients | None = None,
    ) -> dict[str, float]:
        """Train `network` in place.

        Args:
            network: starts with the weights to train from.
            examples: the client's training part.
            loss: what to minimise.
            env: the client's place, for its random streams and schedule.
            adjust_gradients: changes the gradients of the trained parameters, in the network's
                order, before they are clipped and used.

        Returns:
            `train_loss`, the mean over all examples visited.
        """
        parameters = [p for p in network.parameters() if p.requires_grad]
        step = self.descent(parameters, env)
        inputs_of = self.input_source(examples, env)
        loss_sum, visited = torch.zeros((), dtype=torch.float64), 0
        network.train()
        batches = self.batches(len(examples), env.generator("batches"))
        for batch, rate in zip(batches, self.rates(len(examples)), strict=True):
            value = loss(network, inputs_of(batch), examples.labels[batch].to(env.task.device))
            gradients = list(
                torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)
            )
            if adjust_gradients is not None:
                adjust_gradients(gradients)
            if self.clip is not None:
                clip_gradients(gradients, self.clip)
            step(gradients, rate)
            loss_sum += value.detach().cpu() * len(batch)
            visited += len(batch)
        network.eval()
        mean_loss = float(loss_sum) / max(visited, 1)
        if not math.isfinite(mean_loss):
            raise NumericalError(
                f"the training loss became {mean_loss}; lower local.lr (now {self.lr:g}) "
                "or set local.clip."
            )
        return {"train_loss": mean_loss}

    def descent(self, parameters: list[nn.Parameter], env: Env) -> Step:
        """A new optimiser for the round `env` stands in."""
        if self.optimizer == "adam":
            return adam(parameters, self.lr_at(env), self.weight_decay)
        return sgd(parameters, self.lr_at(env), self.momentum, self.weight_decay)

    def input_source(self, examples: Examples, env: Env) -> Callable[[Tensor], Tensor]:
        """Batch indices to what the network reads."""
        task, stored = env.task, examples.inputs
        if self.augment != "none":
            errors = self.review(task).errors
            if errors:
                raise ConfigError(errors)
            change, generator = task.augmentations[self.augment], env.generator("augment")
            return lambda batch: change(stored[batch], generator).to(task.device)
        if math.prod(stored.shape) * 4 <= PREPARE_AT_ONCE_BYTES:
            prepared = task.prepare(stored)
            return lambda batch: prepared[batch].to(task.device)
        return lambda batch: task.prepare(stored[batch]).to(task.device)
