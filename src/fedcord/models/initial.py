"""Networks whose first weights come from a passed generator and from nothing else.

PyTorch fills new layers from its global generator. Building on the meta device skips that, so a
network costs no random numbers it does not use and the caller's global state stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Generator, Tensor, nn

from fedcord.core.errors import ConfigError
from fedcord.core.machine import data_limit, gigabytes

WEIGHT_BYTES = 4  # float32
M = TypeVar("M", bound=nn.Module)


def materialise(
    make: Callable[[], M],
    generator: Generator | None,
    *,
    he_fan_out: bool = False,
    channels_last: bool = False,
) -> M:
    """A network in memory with its first weights.

    Args:
        make: constructs the network; its layers' own initial values are ignored.
        generator: source of the weights, drawn in the order of the layers; None leaves the
            parameters undefined, for a network that will be loaded.
        he_fan_out: draw convolutions as residual networks need it (normal, He fan-out) rather
            than at PyTorch's default scale.
        channels_last: keep convolution weights with channels innermost, which is what makes
            convolutions fast on a CPU.

    Raises:
        ConfigError: when there are more weights than fit into memory a few times.
    """
    with torch.device("meta"):
        network = make()
    _check_size(network)
    network = _in_memory(network)
    for layer in network.modules():
        _reset_buffers(layer)
        if generator is not None:
            _draw(layer, generator, he_fan_out)
    if channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _in_memory(network: M) -> M:
    """A network of the meta device with memory of its own, whatever that holds.

    `to_empty` does the same by `empty_like`, for which PyTorch imports SymPy in every new process:
    half a second of each worker, and of each message to a site.
    """
    network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))  # type: ignore[no-untyped-call]
    return network


def _check_size(network: nn.Module) -> None:
    """Refuse a network before it has any memory."""
    count = sum(weights.numel() for weights in network.state_dict().values())
    size, limit = WEIGHT_BYTES * count, data_limit()
    if size > limit:
        raise ConfigError(
            f"the network would have {count:,} weights, {gigabytes(size)}; at most "
            f"{gigabytes(limit)}, a quarter of this machine's memory, are made: choose fewer units "
            "or channels."
        )


def channels_innermost(images: Tensor) -> Tensor:
    """[B, C, H, W] in the memory order convolutions like; the values are the same."""
    return images.contiguous(memory_format=torch.channels_last)


def _reset_buffers(layer: nn.Module) -> None:
    if isinstance(layer, nn.BatchNorm2d):
        layer.reset_running_stats()
    elif any(True for _ in layer.buffers(recurse=False)):
        raise TypeError(f"{type(layer).__name__} has buffers that materialise cannot reset")


def _draw(layer: nn.Module, generator: Generator, he_fan_out: bool) -> None:
    if isinstance(layer, nn.Conv2d) and he_fan_out:
        nn.init.kaiming_normal_(
            layer.weight, mode="fan_out", nonlinearity="relu", generator=generator
        )
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    elif isinstance(layer, (nn.Conv2d, nn.Linear)):
        bound = 1 / math.sqrt(layer.weight[0].numel())  # PyTorch's default for both
        nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        if layer.bias is not None:
            nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    elif isinstance(layer, (nn.BatchNorm2d, nn.GroupNorm)):
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)
    elif isinstance(layer, nn.EmbeddingBag):
        nn.init.normal_(layer.weight, generator=generator)
        if layer.padding_idx is not None:
            with torch.no_grad():
                layer.weight[layer.padding_idx].zero_()
    elif any(True for _ in layer.parameters(recurse=False)):
        raise TypeError(f"{type(layer).__name__} has parameters that materialise cannot draw")
