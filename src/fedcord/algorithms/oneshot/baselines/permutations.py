"""Which tensors of a network share an order of neurons, found by tracing its forward pass.

Reordering the neurons of a hidden layer changes nothing if every tensor that writes or reads them
is reordered alike. Such a set of tensors is a `Space`. Residual additions join the spaces of what
they add. What tracing does not understand is left alone: its neurons keep their order, which is
always right, only less free.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from fedcord.core.errors import ConfigError


@dataclass(frozen=True)
class Use:
    """One axis of one tensor that runs over a space's neurons.

    Attributes:
        tensor: name in the network's state.
        axis: 0 where the tensor writes or scales neurons, 1 where it reads them.
        repeats: consecutive entries per neuron; more than 1 after a map was flattened.
        writes: whether the tensor is the weight or bias of a layer that makes these neurons.
    """

    tensor: str
    axis: int
    repeats: int = 1
    writes: bool = False


@dataclass
class Space:
    """Neurons that must be reordered together.

    Attributes:
        size: how many.
        uses: every tensor that runs over them, in the order of the forward pass.
        is_fixed: whether their order must stay.
    """

    size: int
    uses: list[Use] = field(default_factory=list)
    is_fixed: bool = False


def neuron_spaces(network: nn.Module) -> list[Space]:
    """All spaces of `network` in the order its forward pass writes them.

    The network is left in evaluation mode; training may check batches, which tracing cannot.

    Raises:
        ConfigError: where the forward pass branches on its input and cannot be traced.
    """
    try:
        graph = fx.Tracer().trace(network.eval())
    except (fx.proxy.TraceError, TypeError) as error:
        raise ConfigError(
            f"matching neurons needs a forward pass that can be traced, and that of "
            f"{type(network).__name__} cannot ({error}); choose mlp, cnn or a resnet."
        ) from error
    tracer = _Follower(network)
    for node in graph.nodes:
        tracer.follow(node)
    return tracer.spaces()


_FUNCTIONS = {torch.relu, F.relu, F.relu6, F.max_pool2d, F.avg_pool2d, F.dropout, torch.flatten}
_METHODS = {"relu", "contiguous", "clamp", "relu_", "to", "float"}
_MODULES = (nn.ReLU, nn.ReLU6, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Dropout)
"""What hands its channels on as they are."""


class _Follower:
    """Follows the channels of every value through a traced forward pass."""

    def __init__(self, network: nn.Module) -> None:
        self._modules = dict(network.named_modules())
        self._spaces: list[Space] = []
        self._parent: list[int] = []
        self._of: dict[fx.Node, int | None] = {}

    def spaces(self) -> list[Space]:
        return [space for i, space in enumerate(self._spaces) if self._find(i) == i]

    def follow(self, node: fx.Node) -> None:
        given = [self._of[source] for source in node.all_input_nodes]
        if node.op == "call_module":
            name = str(node.target)
            self._of[node] = self._layer(name, self._modules[name], given)
        elif node.target in (operator.add, torch.add) and len(given) == 2:
            self._of[node] = self._join(given[0], given[1])
        elif len(given) == 1 and _hands_on(node):
            self._of[node] = given[0]
        else:
            self._of[node] = self._lost(given)

    def _layer(self, name: str, layer: nn.Module, given: list[int | None]) -> int | None:
        space = given[0]
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.groups == 1):
            self._read(space, f"{name}.weight", layer.weight.shape[1])
            return self._written(name, layer)
        is_depthwise = (
            isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels == layer.out_channels
        )
        if isinstance(layer, nn.BatchNorm2d) or is_depthwise:
            for suffix, tensor in layer.state_dict().items():
                if tensor.ndim > 0:
                    self._use(space, Use(f"{name}.{suffix}", 0))
            return space
        return space if isinstance(layer, (*_MODULES, nn.Identity)) else self._lost(given)

    def _written(self, name: str, layer: nn.Linear | nn.Conv2d) -> int:
        new = len(self._spaces)
        self._spaces.append(Space(layer.weight.shape[0]))
        self._parent.append(new)
        self._use(new, Use(f"{name}.weight", 0, writes=True))
        if layer.bias is not None:
            self._use(new, Use(f"{name}.bias", 0, writes=True))
        return new

    def _read(self, space: int | None, tensor: str, width: int) -> None:
        if space is None:
            return
        size = self._spaces[self._find(space)].size
        if width % size:
            self._lost([space])
        else:
            self._use(space, Use(tensor, 1, width // size))

    def _use(self, space: int | None, use: Use) -> None:
        if space is not None:
            self._spaces[self._find(space)].uses.append(use)

    def _lost(self, given: list[int | None]) -> int | None:
        """From here on the order of these neurons matters in ways we do not know."""
        for space in given:
            if space is not None:
                self._spaces[self._find(space)].is_fixed = True
        return None

    def _join(self, left: int | None, right: int | None) -> int | None:
        if left is None or right is None:
            return self._lost([left, right])
        first, second = sorted((self._find(left), self._find(right)))
        if first != second:
            self._spaces[first].uses += self._spaces[second].uses
            self._spaces[first].is_fixed |= self._spaces[second].is_fixed
            self._parent[second] = first
        return first

    def _find(self, space: int) -> int:
        while self._parent[space] != space:
            space = self._parent[space]
        return space


def _hands_on(node: fx.Node) -> bool:
    if node.op == "call_method":
        pools = node.target == "mean" and tuple(node.args[1:]) == ((2, 3),)
        flattens = node.target == "flatten" and tuple(node.args[1:]) == (1,)
        return pools or flattens or node.target in _METHODS
    if node.target is operator.getitem:
        return _keeps_channels(node.args[1])
    return node.op == "call_function" and node.target in _FUNCTIONS


def _keeps_channels(index: Any) -> bool:
    whole = slice(None)
    return isinstance(index, tuple) and len(index) > 1 and index[0] == whole and index[1] == whole
