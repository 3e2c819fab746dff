"""A network that turns noise into inputs, for servers that have no data."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedcord.core.task import Task

SPREAD = 0.02
"""Standard deviation of first weights, the usual one of generative networks."""


class ImageGenerator(nn.Module):
    """Noise [B, Z] to images [B, C, H, W] in [0, 1]: a linear layer and two steps of doubling."""

    def __init__(self, latent_dim: int, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.sizes = [(math.ceil(height / s), math.ceil(breadth / s)) for s in (4, 2, 1)]
        self.first = nn.Linear(latent_dim, 2 * width * self.sizes[0][0] * self.sizes[0][1])
        self.norms = nn.ModuleList(nn.BatchNorm2d(w) for w in (2 * width, 2 * width, width))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(2 * width, w, 3, padding=1) for w in (2 * width, width)
        )
        self.last = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, noise: Tensor) -> Tensor:
        """[B, Z] to [B, C, H, W]."""
        maps = self.first(noise).unflatten(1, (-1, *self.sizes[0]))
        maps = self.norms[0](maps)
        for size, convolution, norm in zip(
            self.sizes[1:], self.convolutions, self.norms[1:], strict=True
        ):
            maps = F.leaky_relu(norm(convolution(F.interpolate(maps, size=size))), 0.2)
        return torch.sigmoid(self.last(maps))


class VectorGenerator(nn.Module):
    """Noise [B, Z] to vectors [B, D], each entry with mean 0 and variance 1 over the batch."""

    def __init__(self, latent_dim: int, shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.first = nn.Linear(latent_dim, 4 * width)
        self.norm = nn.BatchNorm1d(4 * width)
        self.last = nn.Linear(4 * width, shape[0])
        self.scale = nn.BatchNorm1d(shape[0], affine=False)

    def forward(self, noise: Tensor) -> Tensor:
        """[B, Z] to [B, D]."""
        vectors: Tensor = self.scale(self.last(F.leaky_relu(self.norm(self.first(noise)), 0.2)))
        return vectors


GENERATORS = {1: VectorGenerator, 3: ImageGenerator}
"""By the number of axes of an input."""


def inputs_problem(task: Task) -> str | None:
    """Why no inputs can be made for a task, or None: a gradient must lead through them."""
    if task.reads_numbers and len(task.input_shape) in GENERATORS:
        return None
    return (
        "inputs can be generated for images and vectors, not for token ids; choose a method that "
        "needs no inputs on the server, such as ensemble."
    )


def build_generator(task: Task, latent_dim: int, width: int) -> nn.Module:
    """A generator of the task's inputs, with undefined weights; see `draw_weights`."""
    with torch.device("meta"):
        network = GENERATORS[len(task.input_shape)](latent_dim, task.input_shape, width)
    return network.to_empty(device=task.device).train()


def draw_weights(network: nn.Module, generator: Generator) -> None:
    """Fill a generator with first weights from `generator`, forgetting what it learned."""
    for layer in network.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            _draw_normal(layer.weight, 0.0, generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            layer.reset_running_stats()
            if layer.affine:
                _draw_normal(layer.weight, 1.0, generator)
                nn.init.zeros_(layer.bias)


def _draw_normal(weight: Tensor, mean: float, generator: Generator) -> None:
    """Fill a weight with numbers drawn on the CPU, so that they are the same on every device."""
    drawn = torch.empty_like(weight, device="cpu").normal_(mean, SPREAD, generator=generator)
    with torch.no_grad():
        weight.copy_(drawn)


def to_network(task: Task) -> Callable[[Tensor], Tensor]:
    """Generated inputs to what networks read: images are normalised like stored ones."""
    if len(task.input_shape) == 3:
        return task.prepare
    return lambda vectors: vectors


def noise_inputs(task: Task, count: int, generator: Generator) -> Tensor:
    """Inputs of pure chance: uniform pixels [count, C, H, W], or normal vectors [count, D]."""
    shape = (count, *task.input_shape)
    if len(task.input_shape) == 3:
        return torch.rand(shape, generator=generator).to(task.device)
    return torch.randn(shape, generator=generator).to(task.device)
