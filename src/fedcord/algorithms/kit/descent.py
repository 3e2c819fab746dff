"""SGD and Adam as plain functions of gradients, and where a linear layer starts.

They compute what `torch.optim` computes, without its machinery: creating the first optimiser of a
process there imports a compiler, which takes longer than many a client's whole training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Generator, Tensor

BETAS, EPSILON = (0.9, 0.999), 1e-8


class Step(Protocol):
    """Changes the parameters it was made for."""

    def __call__(self, gradients: list[Tensor], rate: float = 1.0) -> None:
        """Descend along their gradients, by `rate` of the learning rate."""


def sgd(parameters: Sequence[Tensor], lr: float, momentum: float, weight_decay: float) -> Step:
    """Stochastic gradient descent: v ← m v + g + w θ, θ ← θ − η v."""
    values = [p.detach() for p in parameters]
    velocity: list[Tensor] = []

    def step(gradients: list[Tensor], rate: float = 1.0) -> None:
        if weight_decay:
            torch._foreach_add_(gradients, values, alpha=weight_decay)
        if momentum:
            if velocity:
                torch._foreach_mul_(velocity, momentum)
                torch._foreach_add_(velocity, gradients)
            else:
                velocity.extend(g.clone() for g in gradients)
            gradients = velocity
        torch._foreach_add_(values, gradients, alpha=-lr * rate)

    return step


def adam(parameters: Sequence[Tensor], lr: float, weight_decay: float) -> Step:
    """Adam with an L2 penalty, with its usual constants."""
    values = [p.detach() for p in parameters]
    mean = [torch.zeros_like(v) for v in values]
    square = [torch.zeros_like(v) for v in values]
    count = 0

    def step(gradients: list[Tensor], rate: float = 1.0) -> None:
        nonlocal count
        count += 1
        if weight_decay:
            torch._foreach_add_(gradients, values, alpha=weight_decay)
        torch._foreach_lerp_(mean, gradients, 1 - BETAS[0])
        torch._foreach_mul_(square, BETAS[1])
        torch._foreach_addcmul_(square, gradients, gradients, 1 - BETAS[1])
        scale = torch._foreach_sqrt(square)
        torch._foreach_div_(scale, (1 - BETAS[1] ** count) ** 0.5)
        torch._foreach_add_(scale, EPSILON)
        torch._foreach_addcdiv_(values, mean, scale, -lr * rate / (1 - BETAS[0] ** count))

    return step


def clip_gradients(gradients: list[Tensor], largest: float) -> None:
    """Scale all gradients so that their common norm is at most `largest`."""
    norms = torch._foreach_norm(gradients)
    total = torch.linalg.vector_norm(torch.stack(norms))
    torch._foreach_mul_(gradients, (largest / (total + 1e-6)).clamp(max=1.0))


def linear_start(outputs: int, inputs: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Weight [outputs, inputs] and bias [outputs], uniform in ±1/√inputs as PyTorch's default."""
    bound = 1 / math.sqrt(inputs)
    weight = torch.rand(outputs, inputs, generator=generator)
    bias = torch.rand(outputs, generator=generator)
    return (2 * weight - 1) * bound, (2 * bias - 1) * bound
