"""Training a part of a network: all of it, what makes its features, or its classifier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from fedcord.algorithms.kit.encoder import head_prefix

PARTS = ("all", "features", "classifier")


def trained_part(part: str, network: nn.Module) -> list[nn.Parameter]:
    """What of a network's trained parameters belongs to a part."""
    head = head_prefix(network)
    return [
        parameter
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
        and (part == "all" or name.startswith(head) == (part == "classifier"))
    ]


@contextmanager
def only_trained(part: str, network: nn.Module) -> Iterator[None]:
    """While it lasts, the rest of the network is no parameter of any training."""
    moving = {id(parameter) for parameter in trained_part(part, network)}
    still = [p for p in trained_part("all", network) if id(p) not in moving]
    for parameter in still:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in still:
            parameter.requires_grad_(True)
