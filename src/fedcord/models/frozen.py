"""A fixed encoder under a trained linear layer.

The encoder is known to everybody beforehand, so it neither travels nor trains: it is not part of
`parameters()` or `state_dict()`, and one copy per process serves every network that uses it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from fedcord.core.tensors import hash_tensors
from fedcord.models.initial import materialise
from fedcord.models.options import FrozenOptions, Inputs


@dataclass(frozen=True)
class Encoder:
    """A fixed feature map.

    Attributes:
        module: [B, ...] inputs to [B, D] features.
        feature_dim: D.
        channels: image channels it reads; grey images are repeated; None: takes any input.
        size: side it resizes images to; None: any.
        mean: normalisation it was trained with, per channel; empty: takes inputs as they come.
        std: normalisation it was trained with, per channel.
    """

    module: nn.Module
    feature_dim: int
    channels: int | None = None
    size: int | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


class FrozenNetwork(nn.Module):
    """Linear classifier on the features of a fixed encoder.

    Attributes:
        feature_dim: length of the encoder's features.
        head: the only part with parameters.
    """

    def __init__(self, encoder: Encoder, inputs: Inputs) -> None:
        super().__init__()
        self.feature_dim = encoder.feature_dim
        self.head = nn.Linear(encoder.feature_dim, inputs.num_classes)
        # in a tuple nn.Module does not see it: no parameters, no state, no training mode
        self._encoder = (encoder,)
        self._scale, self._shift = _renormalisation(encoder, inputs)

    @property
    def is_identity(self) -> bool:
        """Whether features are the input as it comes."""
        (encoder,) = self._encoder
        as_it_comes = encoder.size is None and encoder.channels is None and not self._scale
        return as_it_comes and isinstance(encoder.module, nn.Flatten)

    def identity(self, preparation: str) -> str:
        """SHA-256 of all that features depend on beside the stored input.

        Args:
            preparation: how inputs are prepared, and whatever else changes bits.
        """
        parts = f"{self._description}|{torch.__version__}|{preparation}"
        return hashlib.sha256(parts.encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the encoder itself and of how it rescales its inputs."""
        return hashlib.sha256(self._description.encode()).hexdigest()

    @property
    def _description(self) -> str:
        (encoder,) = self._encoder
        weights = hash_tensors(dict(encoder.module.state_dict()))
        parts = (
            encoder.module, weights, encoder.feature_dim, encoder.channels, encoder.size,
            self._scale, self._shift,
        )  # fmt: skip
        return "|".join(map(str, parts))

    def features(self, inputs: Tensor) -> Tensor:
        """[B, ...] prepared inputs to [B, D] features, without gradient."""
        (encoder,) = self._encoder
        with torch.no_grad():
            x = inputs
            if self._scale:
                shape = (1, -1, 1, 1)
                scale, shift = x.new_tensor(self._scale), x.new_tensor(self._shift)
                x = x * scale.view(shape) + shift.view(shape)
            if encoder.size is not None and x.shape[-2:] != (encoder.size, encoder.size):
                x = F.interpolate(
                    x, size=(encoder.size, encoder.size), mode="bilinear", antialias=True
                )
            if encoder.channels is not None and x.shape[1] != encoder.channels:
                x = x.expand(-1, encoder.channels, -1, -1)
            return cast(Tensor, encoder.module.to(x.device)(x)).detach()

    @property
    def stage_names(self) -> tuple[str, ...]:
        """None: fixed encoders come from many places and show their features only."""
        return ()

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, ...] prepared inputs to [B, D] features, and no maps."""
        return self.features(inputs), []

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return cast(Tensor, self.head(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, ...] prepared inputs to [B, C] class scores."""
        return self.classify(self.features(inputs))


def build_frozen(
    options: FrozenOptions, inputs: Inputs, generator: Generator | None
) -> FrozenNetwork:
    """A linear classifier over the chosen encoder."""
    encoder = _load(options, inputs)
    return materialise(lambda: FrozenNetwork(encoder, inputs), generator)


@lru_cache(maxsize=4)
def _load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    # imported here because the encoders' modules know `Encoder`
    from fedcord.models.encoders import efficientnet_lite, file, huggingface, pixels, random_conv

    loaders: dict[str, Callable[[FrozenOptions, Inputs], Encoder]] = {
        "": file.load,
        "pixels": pixels.load,
        "random-conv": random_conv.load,
        "efficientnet-lite0": efficientnet_lite.load,
    }
    load = huggingface.load if options.encoder.startswith("hf:") else loaders[options.encoder]
    encoder = load(options, inputs)
    encoder.module.requires_grad_(False).eval()
    return encoder


def _renormalisation(
    encoder: Encoder, inputs: Inputs
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Factor and offset per image channel from the data's normalisation to the encoder's.

    x·s + m are pixel values in [0, 1]; the encoder wants (pixel - M) / S. A grey image uses the
    mean of the encoder's channels.
    """
    if not encoder.mean:
        return (), ()
    channels = inputs.shape[0]
    wanted_mean, wanted_std = (
        _per_channel(encoder.mean, channels),
        _per_channel(encoder.std, channels),
    )
    mean = _per_channel(inputs.mean or (0.0,), channels)
    std = _per_channel(inputs.std or (1.0,), channels)
    scale = tuple(s / wanted for s, wanted in zip(std, wanted_std, strict=True))
    shift = tuple(
        (m - wanted) / spread
        for m, wanted, spread in zip(mean, wanted_mean, wanted_std, strict=True)
    )
    return scale, shift


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """`values` as they are, or their mean for each channel when the numbers differ."""
    return values if len(values) == channels else (sum(values) / len(values),) * channels
