"""Stored inputs to what a network reads, without any chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import torch
from torch import Tensor

from fedcord.core.errors import ConfigError, unknown_name

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"image": torch.uint8, "vector": torch.float32, "text": torch.int64}
)
"""By kind of example, the type of what is stored."""
KINDS = tuple(DTYPES)


def to_unit(images: Tensor) -> Tensor:
    """Stored [B, C, H, W] bytes as a new float32 tensor in [0, 1]; floats are taken as they are."""
    if images.dtype == torch.uint8:
        return images.to(torch.float32).mul_(1 / 255)
    return images.to(torch.float32, copy=True)


def normalize(inputs: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(x - mean) / std for each channel, the second dimension of [B, C, ...].

    One number stands for all channels. Empty `mean` or `std` leaves that step out.
    """
    return normalize_(inputs.clone(), mean, std)


def normalize_(inputs: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """`normalize` in the memory of `inputs`, for a caller who has just made them."""
    if len(mean):
        inputs.sub_(_per_channel(mean, inputs))
    if len(std):
        inputs.mul_(_per_channel([1 / value for value in std], inputs))
    return inputs


def _per_channel(values: Sequence[float], inputs: Tensor) -> Tensor | float:
    """As something that broadcasts over [B, C, ...]; a single number stays one, which is faster."""
    if len(values) == 1:
        return values[0]
    shape = (1, -1, *[1] * (inputs.dim() - 2))
    return torch.tensor(values, dtype=torch.float32, device=inputs.device).view(shape)


@dataclass(frozen=True)
class Prepare:
    """A `Task.prepare`; plain values only, so it can be compared, shown and rebuilt."""

    kind: str
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __call__(self, stored: Tensor) -> Tensor:
        """[B, ...] stored inputs to [B, ...] network inputs."""
        if self.kind == "text":
            return stored.long()
        if self.kind == "image" and stored.dtype == torch.uint8:
            return self._from_bytes(stored)
        if self.kind == "image":
            return normalize_(to_unit(stored), self.mean, self.std)
        vectors = stored.to(torch.float32)
        if not self.mean and not self.std:
            return vectors
        shift, factor = self._per_feature
        return (vectors - shift.to(vectors.device)).mul_(factor.to(vectors.device))

    @cached_property
    def _per_feature(self) -> tuple[Tensor, Tensor]:
        """What vectors lose and what they are multiplied by, made once: there may be thousands."""
        mean, std = self.mean or (0.0,), self.std or (1.0,)
        factors = [1 / value for value in std]
        return torch.tensor(mean, dtype=torch.float32), torch.tensor(factors, dtype=torch.float32)

    def _from_bytes(self, stored: Tensor) -> Tensor:
        """(x / 255 − mean) / std as one product and one difference: half the passes over memory."""
        std = self.std or (1.0,)
        scale = [1 / (255 * value) for value in std]
        images = stored.to(torch.float32).mul_(_per_channel(scale, stored))
        if self.mean:
            longest = max(len(self.mean), len(std))
            means, stds = self.mean * (longest // len(self.mean)), std * (longest // len(std))
            shift = [mean / value for mean, value in zip(means, stds, strict=True)]
            images.sub_(_per_channel(shift, images))
        return images


def prepare_fn(
    kind: str, mean: Sequence[float] = (), std: Sequence[float] = ()
) -> Callable[[Tensor], Tensor]:
    """The function that turns stored inputs into network inputs.

    Args:
        kind: "image" (bytes [B, C, H, W] to [0, 1], then normalised), "vector" (float32, normalised
            when values are given) or "text" (token ids, unchanged).
        mean: per channel or feature; empty for none.
        std: per channel or feature, above zero; empty for none.
    """
    if kind not in KINDS:
        raise ConfigError(unknown_name("kind of input", kind, KINDS))
    if any(not value > 0 for value in std):
        raise ConfigError(
            f"std is {list(std)}; every value must be above 0 (give constant features 1)."
        )
    return Prepare(kind, tuple(map(float, mean)), tuple(map(float, std)))
