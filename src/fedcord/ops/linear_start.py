"""First weights of a linear layer."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor


def linear_start(outputs: int, inputs: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Weight [outputs, inputs] and bias [outputs], uniform in ±1/√inputs as PyTorch's default."""
    bound = 1 / math.sqrt(inputs)
    weight = torch.rand(outputs, inputs, generator=generator)
    bias = torch.rand(outputs, generator=generator)
    return (2 * weight - 1) * bound, (2 * bias - 1) * bound
