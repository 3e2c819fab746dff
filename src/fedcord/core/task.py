"""The learning problem as an algorithm sees it: shapes, networks, and how inputs are prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.tensors import Tensors


@runtime_checkable
class Network(Protocol):
    """A classifier in two halves; every model in fedcord is an `nn.Module` of this shape."""

    feature_dim: int

    def features(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, D] features."""
        ...

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        ...

    def __call__(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, C] class scores."""
        ...


@runtime_checkable
class FixedNetwork(Network, Protocol):
    """A network whose features never change, and which everybody has."""

    @property
    def fingerprint(self) -> str:
        """Differs between any two whose features differ."""
        ...


NetworkFactory = Callable[[Generator | None], nn.Module]
"""Makes a network; with a generator its weights are drawn from it, without they are undefined."""


def _none_by_name(name: str) -> FixedNetwork:
    raise ConfigError(f"network '{name}': this task can make no fixed networks by name.")


@dataclass(frozen=True)
class Task:
    """What is to be learnt, without the data.

    Attributes:
        num_classes: C.
        input_shape: shape of one prepared input.
        networks: one factory, or several when clients use different architectures; client k uses
            number k modulo their count and the server number 0.
        prepare: stored inputs [B, ...] to what a network reads (float, normalised).
        augmentations: by name, stored inputs to randomly changed inputs a network reads; one draw
            per sample from the passed generator.
        device: where networks run.
        make_fixed: makes the fixed network of a name, or raises a ConfigError that says which
            there are.
    """

    num_classes: int
    input_shape: tuple[int, ...]
    networks: Sequence[NetworkFactory]
    prepare: Callable[[Tensor], Tensor]
    augmentations: Mapping[str, Callable[[Tensor, Generator], Tensor]] = field(default_factory=dict)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    make_fixed: Callable[[str], FixedNetwork] = field(
        default=_none_by_name, repr=False, compare=False
    )
    _scratch: dict[int, nn.Module] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _fixed: dict[str, FixedNetwork] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def initial_network(self, generator: Generator, client: int | None = None) -> nn.Module:
        """A new network with weights drawn from `generator`."""
        return self.networks[self.architecture(client)](generator).to(self.device)

    def network_with(self, tensors: Tensors, client: int | None = None) -> nn.Module:
        """A network holding copies of `tensors`, in evaluation mode.

        The module is reused by the next call for the same architecture in this process: use it,
        take what you need by `tensors_of`, and keep no reference to it.
        """
        network = self.scratch_network(client)
        load_into(network, tensors)
        return network.eval()

    def scratch_network(self, client: int | None = None) -> nn.Module:
        """The network `network_with` reuses, with whatever weights it last held."""
        which = self.architecture(client)
        if which not in self._scratch:
            self._scratch[which] = self.networks[which](None).to(self.device)
        return self._scratch[which]

    def fixed_network(self, name: str) -> FixedNetwork:
        """The fixed network of a name, made once in this process; nobody need send it."""
        if name not in self._fixed:
            self._fixed[name] = self.make_fixed(name)
        return self._fixed[name]

    def architecture(self, client: int | None) -> int:
        """The place in `networks` of a client's network."""
        return 0 if client is None else client % len(self.networks)


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Detached copies of all parameters and buffers, in plain memory layout."""
    return {
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in network.state_dict().items()
    }


def load_into(network: nn.Module, tensors: Tensors) -> None:
    """Copy `tensors` into `network`; names and shapes must match exactly."""
    own = network.state_dict()  # shares memory with the network
    if own.keys() != tensors.keys():
        wrong = sorted(own.keys() ^ tensors.keys())
        raise ProtocolError(
            f"the network and the tensors differ in {', '.join(wrong)}; "
            "use the model the tensors were trained with."
        )
    with torch.no_grad():
        for name, tensor in own.items():
            if tensor.shape != tensors[name].shape:
                raise ProtocolError(
                    f"{name} has shape {list(tensors[name].shape)}, the network needs "
                    f"{list(tensor.shape)}."
                )
            tensor.copy_(tensors[name])
