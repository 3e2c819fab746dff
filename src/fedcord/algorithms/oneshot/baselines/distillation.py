"""A student learns from a teacher's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.oneshot.baselines.teaching_losses import divergence
from fedcord.core.contract import ClientId, Env
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param
from fedcord.core.task import load_into, tensors_of
from fedcord.core.tensors import Tensors, is_finite
from fedcord.ops.weighted_mean import weighted_mean


@dataclass(frozen=True)
class Distillation:
    """How the student is trained."""

    batch_size: int = param(64, "inputs per step", at_least=2)
    optimizer: str = param("sgd", "update rule; sgd has momentum 0.9", choices=("sgd", "adam"))
    lr: float = param(0.05, "learning rate", above=0, space=(0.0005, 0.5, "log"))
    temperature: float = param(1.0, "softens scores before they are compared", above=0)
    start: str = param(
        "new",
        "the student's first weights: drawn, or the clients' mean",
        choices=("new", "average"),
    )

    def __post_init__(self) -> None:
        check_params(self)


class Student:
    """A network of the server's architecture while it learns."""

    def __init__(
        self,
        settings: Distillation,
        models: Mapping[ClientId, Tensors],
        weights: list[float],
        env: Env,
    ) -> None:
        self._settings = settings
        self.network = env.task.initial_network(env.generator("student"))
        if settings.start == "average":
            mean = weighted_mean(zip(models.values(), weights, strict=True))
            load_into(self.network, mean)
        parameters = list(self.network.parameters())
        self._optimizer: torch.optim.Optimizer
        if settings.optimizer == "adam":
            self._optimizer = torch.optim.Adam(parameters, lr=settings.lr, fused=True)
        else:
            self._optimizer = torch.optim.SGD(parameters, lr=settings.lr, momentum=0.9, fused=True)

    def scores(self, inputs: Tensor) -> Tensor:
        """[B, C] in evaluation mode; gradients reach the inputs."""
        scores: Tensor = self.network.eval()(inputs)
        return scores

    def learn(self, inputs: Tensor, teacher: Tensor, progress: float = 0.0) -> None:
        """One step towards the teacher's scores [B, C] on inputs [B, ...].

        Args:
            inputs: what a network reads.
            teacher: goal.
            progress: share of the training done; the learning rate falls with its half cosine.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.lr * cosine(progress)
        own = self.network.train()(inputs)
        loss = divergence(teacher.detach(), own, self._settings.temperature).mean()
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self._optimizer.step()

    def trained(self) -> dict[str, Tensor]:
        """The student's tensors; refuses those that are not finite."""
        tensors = tensors_of(self.network.eval())
        if not all(is_finite(tensor) for tensor in tensors.values()):
            raise NumericalError(
                f"the student's weights are not finite; lower distillation.lr "
                f"(now {self._settings.lr:g})."
            )
        return tensors


def cosine(progress: float) -> float:
    """½ (1 + cos π·progress): 1 at the start, 0 at the end."""
    return 0.5 * (1 + math.cos(math.pi * progress))
