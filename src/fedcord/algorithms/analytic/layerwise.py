"""A network trained layer by layer in closed form: its shape, its forward pass, its sums.

Images go through convolutions written as products with unfolded patches, each followed by its
activation and 2×2 max-pooling where the map is large enough; vectors go through dense layers. The
last layer is linear on the flattened, averaged-down map. Everything is float64 and a function of
one sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.core.errors import ConfigError
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.rng import derive_seed
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors
from fedcord.ops.gram import GramAccumulator

LEAK = 0.1
NUMBERS_AT_ONCE = 4_000_000
"""Numbers of one block of patches; only memory depends on it."""


@dataclass(frozen=True)
class Layers:
    """The shape of the network."""

    channels: tuple[int, ...] = param((32, 64), "outputs of each hidden layer")
    kernel: int = param(5, "side of a patch, odd", at_least=1)
    activation: str = param("relu", "of hidden layers", choices=("relu", "leaky", "tanh"))
    grid: int = param(4, "largest side of the last map; larger ones are averaged", at_least=1)
    stride: int = param(1, "every stride-th position is summed, to save time", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)
        problems = [f"channels = {c}: must be at least 1." for c in self.channels if c < 1]
        if self.kernel % 2 == 0:
            problems.append(f"kernel = {self.kernel}: must be odd.")
        if problems:
            raise ConfigError(problems)

    @property
    def depth(self) -> int:
        """Layers with weights, the last one included."""
        return len(self.channels) + 1

    def map_shape(self, layer: int, task: Task) -> tuple[int, ...]:
        """Shape of a layer's input before unfolding: (channels, height, width) or (size,)."""
        if len(task.input_shape) != 3:
            before = (math.prod(task.input_shape), *self.channels)
            return (before[layer],)
        channels, height, width = task.input_shape
        for after in self.channels[:layer]:
            channels = after
            height, width = _pooled(height), _pooled(width)
        return channels, height, width

    def num_inputs(self, layer: int, task: Task) -> int:
        """D of a layer: what one patch, or the flattened last map, has with a constant 1."""
        shape = self.map_shape(layer, task)
        if len(shape) == 1:
            return shape[0] + 1
        if layer < len(self.channels):
            return shape[0] * self.kernel**2 + 1
        return shape[0] * math.prod(self._grid(*shape[1:])) + 1

    def num_outputs(self, layer: int, task: Task) -> int:
        """Channels of a hidden layer, classes of the last."""
        return self.channels[layer] if layer < len(self.channels) else task.num_classes

    def num_positions(self, layer: int, task: Task) -> int:
        """Patches per sample that are summed."""
        shape = self.map_shape(layer, task)
        if len(shape) == 1 or layer == len(self.channels):
            return 1
        return math.ceil(shape[1] / self.stride) * math.ceil(shape[2] / self.stride)

    def sample_numbers(self, layer: int, task: Task) -> int:
        """The most numbers one sample takes on its way to a layer's patches."""
        return max(
            math.prod(self.map_shape(i, task)[1:]) * self.num_inputs(i, task)
            for i in range(layer + 1)
        )

    def design(
        self, inputs: Tensor, weights: list[Tensor], task: Task, at_once: int | None = None
    ) -> Iterator[Tensor]:
        """What the layer after `weights` sees: patches [B, P, D] of prepared inputs, in blocks.

        Args:
            inputs: from `Task.prepare`.
            weights: of the layers before.
            task: the learning problem.
            at_once: samples in a block; as many as fit 32 MB when not given.
        """
        layer = len(weights)
        shape = self.map_shape(0, task)
        every = self.stride if layer < len(self.channels) else 1
        block = at_once or max(1, NUMBERS_AT_ONCE // self.sample_numbers(layer, task))
        # an exported graph takes batches of any size, which cannot be cut beforehand
        parts = (inputs,) if torch.compiler.is_exporting() else inputs.split(block)
        for part in parts:
            x = part.to(torch.float64).view(part.shape[0], *shape)
            for weight in weights:
                x = self._activated(x, weight)
            yield self._rows(x, layer, every)

    def scores(self, inputs: Tensor, weights: list[Tensor], task: Task) -> Tensor:
        """Class scores [B, C] of a network with all its weights."""
        parts = [rows[:, 0] @ weights[-1] for rows in self.design(inputs, weights[:-1], task)]
        nothing = torch.zeros(0, task.num_classes, dtype=torch.float64)
        return torch.cat([nothing, *parts])

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        """What the last layer sees of a map; without hidden layers, all of it."""
        return (min(height, self.grid), min(width, self.grid)) if self.channels else (height, width)

    def _activated(self, x: Tensor, weight: Tensor) -> Tensor:
        """The next layer's input: linear, activation, pooling."""
        kernel, bias = weight[:-1], weight[-1]
        if x.ndim == 2:
            return self._bent(torch.addmm(bias, x, kernel))
        # channels first, as pooling wants them: patches are neither transposed nor copied
        patches = F.unfold(x, self.kernel, padding=self.kernel // 2)  # [B, D, P]
        maps = self._bent((kernel.T @ patches).add_(bias[:, None]))  # [B, C', P]
        height, width = x.shape[2:]
        window = (2 if _pooled(height) < height else 1, 2 if _pooled(width) < width else 1)
        return F.max_pool2d(maps.view(x.shape[0], -1, height, width), window)

    def _bent(self, x: Tensor) -> Tensor:
        """The activation, in place."""
        if self.activation == "leaky":
            return F.leaky_relu_(x, LEAK)
        return x.relu_() if self.activation == "relu" else x.tanh_()

    def _rows(self, x: Tensor, layer: int, every: int) -> Tensor:
        """[B, P, D] patches with a constant 1."""
        if x.ndim == 2:
            rows = x[:, None]
        elif layer == len(self.channels):
            size = self._grid(x.shape[2], x.shape[3])
            rows = F.adaptive_avg_pool2d(x, size).flatten(1)[:, None]
        else:
            half = self.kernel // 2
            rows = F.unfold(x, self.kernel, padding=half, stride=every).transpose(1, 2)
        return torch.cat([rows, rows.new_ones(*rows.shape[:2], 1)], dim=2)


def layer_stats(
    layers: Layers,
    weights: list[Tensor],
    data: Examples,
    task: Task,
    tag: int,
    batches: Iterable[slice],
) -> SufficientStats:
    """Sums of the layer after `weights`.

    All positions of a sample have the same target, so the moment needs only the sum of its patches,
    whatever the targets are: D × C numbers for any number of channels.

    Args:
        layers: the network.
        weights: of the layers before.
        data: samples.
        task: the learning problem.
        tag: of the patches.
        batches: which samples to take at once; all of them once.
    """
    size, classes = layers.num_inputs(len(weights), task), task.num_classes
    gram = GramAccumulator(size)
    moment = torch.zeros(classes, size, dtype=torch.float64)
    for batch in batches:
        inputs, labels = task.prepare(data.inputs[batch]), data.labels[batch]
        for rows in layers.design(inputs, weights, task, len(labels)):
            gram.add(rows.reshape(-1, size))
            moment.index_add_(0, labels, rows.sum(1))
    count = torch.bincount(data.labels, minlength=classes)
    total = count.sum()
    return SufficientStats(
        gram.packed(), moment.T.contiguous(), count, total.to(torch.float64), total * tag
    )


def label_codes(layers: Layers, layer: int, classes: int, seed: int) -> Tensor:
    """Pre-activation targets [C, C'] of a hidden layer: one random row per class."""
    code = _drawn(seed, f"codes/{layer}", classes, layers.channels[layer])
    if layers.activation == "tanh":
        return torch.atanh(0.9 * code / code.abs().max())
    return torch.where(code > 0, code, code / LEAK) if layers.activation == "leaky" else code


def random_filters(layers: Layers, layer: int, size: int, seed: int) -> Tensor:
    """[D, C'] filters that know nothing of the data."""
    return _drawn(seed, f"filters/{layer}", size, layers.channels[layer])


def unit_variance(weight: Tensor, gram: Tensor, rows: int) -> Tensor:
    """Filters [D, C'] scaled so that each output has mean square 1 over the patches summed."""
    square = (weight * (gram @ weight)).sum(0) / rows
    return weight / square.clamp(min=1e-24).sqrt()


def collected(shared: Tensors) -> list[Tensor]:
    """The weights of the layers that are done, in order and in plain memory."""
    found: list[Tensor] = []
    while f"layer{len(found)}.weight" in shared:
        weight = shared[f"layer{len(found)}.weight"]
        found.append(weight.clone(memory_format=torch.contiguous_format))
    return found


def _pooled(size: int) -> int:
    return size // 2 if size >= 4 else size


def _drawn(seed: int, purpose: str, rows: int, columns: int) -> Tensor:
    address = derive_seed(seed, f"layerwise/{purpose}")
    generator = np.random.Generator(np.random.Philox(address))
    return torch.from_numpy(generator.standard_normal((rows, columns)))
