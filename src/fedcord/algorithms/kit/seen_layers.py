"""What a linear head sees of a network beside its features: the maps of the stages under them.

A map [C, H, W] is divided into a grid of g×g cells as adaptive pooling does it, and each cell
becomes its mean or its maximum: C·g·g numbers. A side that has fewer than g places keeps them as
they are, and so do stages without places (the hidden layers of an MLP). The last layer of an
encoder was trained to tell its own client's classes apart; the maps under it know more of the
others. Those of a network that nobody has trained are random filters of the input, pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.core.contract import ClientId
from fedcord.core.params import check_params, param
from fedcord.core.task import LayeredNetwork, Network, Task

FEATURES = "features"


def _cell_maxima(map_: Tensor, sides: tuple[int, int]) -> Tensor:
    """[B, C, H, W] to [B, C, *sides]: adaptive max-pooling, which ONNX does not have."""
    for axis, cells in zip((2, 3), sides, strict=True):
        length = map_.shape[axis]
        bounds = [(n * length // cells, -(-(n + 1) * length // cells)) for n in range(cells)]
        map_ = torch.stack([map_.narrow(axis, a, b - a).amax(axis) for a, b in bounds], axis)
    return map_


POOLINGS: dict[str, Callable[[Tensor, tuple[int, int]], Tensor]] = {
    "mean": F.adaptive_avg_pool2d,
    "max": _cell_maxima,
}


@dataclass(frozen=True)
class SeenLayers:
    """Which maps the head sees, and how they are pooled."""

    maps: str = param(
        "none",
        "maps under the features that the head sees too: none, that of the last stage, all",
        choices=("none", "last", "all"),
    )
    pooling: str = param(
        "mean", "what is kept of each cell of a map", choices=("mean", "max", "both")
    )
    grid: int = param(2, "cells along each side of a map", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_on(self) -> bool:
        """Whether anything beside the features is seen."""
        return self.maps != "none"

    def unseen(self, task: Task, name: str) -> tuple[str, ...]:
        """What to say of networks that show nothing but their features.

        Args:
            task: whose networks.
            name: of these parameters.
        """
        if not self.is_on:
            return ()
        networks = {
            type(task.scratch_network(place)).__name__
            for place in range(len(task.networks))
            if not task.stages(place)
        }
        return tuple(
            f"{name}.maps = '{self.maps}': {network} has no stages under its features, so the "
            "head sees those alone; use a network that has some, such as cnn or mlp:100-50."
            for network in sorted(networks)
        )

    def pieces(self, task: Task, client: ClientId) -> dict[str, int]:
        """Columns of a client's encoder by what is in them: its features, then pooled maps."""
        width = int(cast(Network, task.scratch_network(client)).feature_dim)
        found = {FEATURES: width}
        for stage, shape in self._stages(task, client).items():
            sides = [min(self.grid, side) for side in shape[1:]]
            for pooling in self._poolings(shape):
                found[f"{stage}.{pooling}".rstrip(".")] = shape[0] * math.prod(sides)
        return found

    def outputs(self, task: Task, client: ClientId) -> Callable[[Network, Tensor], Tensor]:
        """What makes [B, D] of inputs [B, ...]: the columns `pieces` tells of, as they come."""
        names, seen = tuple(task.stages(client)), self._stages(task, client)
        if not seen:
            return lambda network, inputs: network.features(inputs)

        def ask(network: Network, inputs: Tensor) -> Tensor:
            features, maps = cast(LayeredNetwork, network).features_and_maps(inputs)
            shown = (map_ for name, map_ in zip(names, maps, strict=True) if name in seen)
            return torch.cat(
                [features, *(part for map_ in shown for part in self._pooled(map_))], 1
            )

        return ask

    def _stages(self, task: Task, client: ClientId) -> dict[str, tuple[int, ...]]:
        """Shapes of the maps that are seen."""
        if not self.is_on:
            return {}
        stages = list(task.stages(client).items())
        return dict(stages[-1:] if self.maps == "last" else stages)

    def _poolings(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        """For maps of this shape; nothing is pooled where every place has a cell of its own."""
        if all(side <= self.grid for side in shape[1:]):
            return ("",)
        return ("mean", "max") if self.pooling == "both" else (self.pooling,)

    def _pooled(self, map_: Tensor) -> Iterator[Tensor]:
        """The pieces [B, D] of a map [B, C, H, W] or [B, D]."""
        for pooling in self._poolings(tuple(map_.shape[1:])):
            if pooling:
                height, width = map_.shape[2:]
                cells = (min(self.grid, height), min(self.grid, width))
                yield POOLINGS[pooling](map_, cells).flatten(1)
            else:
                yield map_.flatten(1)
