"""What can be chosen about each network, as checked dataclasses that need no torch.

They live apart from the networks so that a study file or a command line is checked in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.params import param

MOST = 65536
"""Units, channels or pixels of a side; more is a slip of the hand that would fill memory."""


@dataclass(frozen=True)
class Inputs:
    """What a network is built for.

    Attributes:
        kind: "image", "vector" or "text".
        shape: one prepared input: (channels, height, width), (length,) or (tokens,).
        num_classes: C.
        vocabulary: number of token ids including the padding id 0; text only.
        mean: per channel, what `Task.prepare` subtracted; empty when it did not normalise.
        std: per channel, what `Task.prepare` divided by; empty when it did not normalise.
        data_dirs: folders searched for weights instead of those in `FEDCORD_DATA`.
    """

    kind: str
    shape: tuple[int, ...]
    num_classes: int
    vocabulary: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    data_dirs: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoOptions:
    """A network without choices."""


@dataclass(frozen=True)
class MLPOptions:
    """Fully connected network."""

    hidden: tuple[int, ...] = param((200,), "units of each hidden layer", at_least=1, at_most=MOST)


@dataclass(frozen=True)
class CNNOptions:
    """Small convolutional network; see `fedcord.models.cnn`."""

    channels: tuple[int, ...] = param(
        (), "channels of each convolution; empty: by image size", at_least=1, at_most=MOST
    )
    width: int = param(
        32, "channels of the first convolution when not listed", at_least=1, at_most=MOST
    )
    kernel: int = param(3, "side of every convolution kernel, odd", at_least=1, at_most=255)
    padding: str = param(
        "auto",
        "same keeps the size, valid does not pad; auto: same for kernels up to 3, else valid",
        choices=("auto", "same", "valid"),
    )
    fc: int = param(
        128, "units of the hidden layer, the feature dimension", at_least=1, at_most=MOST
    )


@dataclass(frozen=True)
class ResNetOptions:
    """Residual network for small images; see `fedcord.models.resnet`."""

    blocks: tuple[int, ...] = param((2, 2, 2, 2), "blocks of each stage", at_least=1, at_most=100)
    width: int = param(64, "channels of the first stage", at_least=1, at_most=MOST)
    norm: str = param("batch", "normalisation layers", choices=("batch", "group"))
    groups: int = param(2, "groups of norm=group", at_least=1, at_most=MOST)


@dataclass(frozen=True)
class MobileNetOptions:
    """Light network of inverted residual blocks; see `fedcord.models.mobilenet`."""

    width: float = param(1.0, "factor on all channels", at_least=0.1, at_most=4)
    norm: str = param("batch", "normalisation layers", choices=("batch", "group"))
    groups: int = param(2, "groups of norm=group", at_least=1, at_most=MOST)


@dataclass(frozen=True)
class TextOptions:
    """Bag of embeddings; see `fedcord.models.text`."""

    width: int = param(32, "length of embeddings and of the hidden layer", at_least=1, at_most=MOST)


@dataclass(frozen=True)
class FrozenOptions:
    """Fixed encoder under a trained linear layer; see `fedcord.models.frozen`."""

    encoder: str = param("", "pixels, random-conv, efficientnet-lite0 or hf:MODEL")
    file: str = param("", "safetensors file with the encoder's weights")
    arch: str = param("", "the model the file was trained with, such as resnet18")
    width: int = param(0, "width of arch when it is not the default", at_least=0, at_most=MOST)
    norm: str = param("batch", "normalisation of arch", choices=("batch", "group"))
    size: int = param(
        0, "side the image is resized to; 0: what the encoder likes", at_least=0, at_most=MOST
    )
    filters: int = param(256, "number of filters of random-conv", at_least=1, at_most=MOST)
    seed: int = param(0, "seed of the filters of random-conv", at_least=0)
    of: str = param("", "name of the encoder the data are features of already; for the record")
