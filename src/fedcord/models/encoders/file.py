"""A network trained with fedcord, kept in a safetensors file, as feature map."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from torch import Tensor, nn

from fedcord.core.errors import DataError, FedcordError
from fedcord.core.task import Network
from fedcord.core.tensors import Tensors, decode, select
from fedcord.models.frozen import Encoder
from fedcord.models.options import FrozenOptions, Inputs
from fedcord.models.registry import network_factory


class Features(nn.Module):
    """The first half of a network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, D] features."""
        return cast(Network, self.network).features(inputs)


def load(options: FrozenOptions, inputs: Inputs) -> Encoder:
    """The features of the stored network; its classifier is dropped."""
    path = Path(options.file)
    stored = _read(path)
    size = options.size or None
    channels = inputs.shape[0]
    name = options.arch
    name += f",width={options.width}" if options.width else ""
    name += ",norm=group" if options.norm == "group" else ""
    try:
        network = _network(name, inputs, channels, size)
        channels = _channels(network, stored) or channels
        if inputs.shape[0] not in (1, channels):
            raise DataError(f"it reads {channels} channels, the data have {inputs.shape[0]}.")
        network = _network(name, inputs, channels, size)
        _load_body(network, stored)
    except FedcordError as error:
        raise DataError(
            f"{path} does not hold the weights of {name} for inputs {list(inputs.shape)}: {error} "
            "Give the arch, width, norm and size it was trained with."
        ) from error
    feature_dim = cast(Network, network).feature_dim
    return Encoder(Features(network), feature_dim, channels=channels, size=size)


def _network(name: str, inputs: Inputs, channels: int, size: int | None) -> nn.Module:
    shape = (channels, size, size) if size else (channels, *inputs.shape[1:])
    return network_factory(name, kind=inputs.kind, input_shape=shape, num_classes=1)(None)


def _read(path: Path) -> Tensors:
    """The tensors of one network: the file's own, or those a checkpoint keeps under `model.`."""
    try:
        stored = decode(path.read_bytes())
    except (OSError, FedcordError) as error:
        raise DataError(f"{path} cannot be read as safetensors: {error}") from error
    return select(stored, "model") or stored


def _channels(network: nn.Module, stored: Tensors) -> int | None:
    """Image channels the stored network reads, by its first convolution."""
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d):
            weight = stored.get(f"{name}.weight")
            return None if weight is None else int(weight.shape[1])
    return None


def _load_body(network: nn.Module, stored: Tensors) -> None:
    head = next(name for name, module in network.named_modules() if module is network.head)
    own = {
        name: tensor
        for name, tensor in network.state_dict().items()
        if not name.startswith(head + ".")
    }
    for name, tensor in own.items():
        if name not in stored:
            raise DataError(f"{name} is missing.")
        if stored[name].shape != tensor.shape:
            raise DataError(
                f"{name} has shape {list(stored[name].shape)}, not {list(tensor.shape)}."
            )
        tensor.copy_(stored[name])
