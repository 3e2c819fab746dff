"""A client's result with one thing changed."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedcord.core.contract import (
    ClientResult,
)


def scaled(result: ClientResult, factor: float) -> ClientResult:
    """The same result with all real tensors of its update multiplied."""
    tensors = {
        name: tensor * factor if tensor.is_floating_point() else tensor
        for name, tensor in result.update.tensors.items()
    }
    return replace(result, update=replace(result.update, tensors=tensors))


def with_tensor(result: ClientResult, name: str, tensor: Tensor) -> ClientResult:
    tensors = {**result.update.tensors, name: tensor}
    return replace(result, update=replace(result.update, tensors=tensors))
