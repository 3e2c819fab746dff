"""The learning problem as an algorithm sees it: shapes, networks, and how inputs are prepared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.passes import PassCounter
from fedcord.core.tensors import Tensors

T = TypeVar("T")


@runtime_checkable
class Network(Protocol):
    """A classifier in two halves; every model in fedcord is an `nn.Module` of this shape."""

    @property
    def feature_dim(self) -> int:
        """D, the length of features."""
        ...

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


@runtime_checkable
class LayeredNetwork(Network, Protocol):
    """A network that shows what its features are made from, stage by stage.

    Every network of fedcord is one; those with nothing to show name no stages.
    """

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Stages under the features, in the order of computation."""
        ...

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, ...] inputs to [B, D] features and the map of every stage, by one forward pass.

        A map is [B, C, H, W], or [B, D] where there are no places, as the next layer reads it:
        after activation.
        """
        ...


View = Callable[[Tensor], Tensor]
"""Prepared inputs [B, ...] to prepared inputs of the same shape that show the same."""

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
        input_dtype: the type of stored inputs, before `prepare`.
        make_fixed: makes the fixed network of a name, or raises a ConfigError that says which
            there are.
        test_views: views that a model is asked about beside an input itself, wherever it predicts;
            the scores are averaged by `fedcord.core.prediction`, and algorithms need not know.
        passes: counts what passes through the networks.
    """

    num_classes: int
    input_shape: tuple[int, ...]
    networks: Sequence[NetworkFactory]
    prepare: Callable[[Tensor], Tensor]
    augmentations: Mapping[str, Callable[[Tensor, Generator], Tensor]] = field(default_factory=dict)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    input_dtype: torch.dtype = torch.float32
    make_fixed: Callable[[str], FixedNetwork] = field(
        default=_none_by_name, repr=False, compare=False
    )
    test_views: tuple[View, ...] = ()
    passes: PassCounter = field(default_factory=PassCounter, repr=False, compare=False)
    _scratch: dict[int, nn.Module] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _fixed: dict[str, FixedNetwork] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _stages: dict[int, dict[str, tuple[int, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def reads_numbers(self) -> bool:
        """Whether networks read real numbers; token ids are names, without noise or gradients."""
        return self.prepare(torch.zeros((2, *self.input_shape))).is_floating_point()

    def initial_network(self, generator: Generator, client: int | None = None) -> nn.Module:
        """A new network with weights drawn from `generator`."""
        return self._made(self.architecture(client), generator)

    def network_with(self, tensors: Tensors, client: int | None = None) -> nn.Module:
        """A network holding copies of `tensors`, in evaluation mode.

        The module is reused by the next call for the same architecture in this process: use it,
        take what you need by `tensors_of`, and keep no reference to it; `held_network` is one to
        keep.
        """
        network = self.scratch_network(client)
        load_into(network, tensors)
        return network.eval()

    def scratch_network(self, client: int | None = None) -> nn.Module:
        """The network `network_with` reuses, with whatever weights it last held."""
        which = self.architecture(client)
        if which not in self._scratch:
            self._scratch[which] = self._made(which, None)
        return self._scratch[which]

    def fresh_network(self, client: int | None = None) -> nn.Module:
        """A network of its own whose weights are undefined."""
        return self._made(self.architecture(client), None)

    def _made(self, which: int, generator: Generator | None) -> nn.Module:
        return self.passes.watch(self.networks[which](generator).to(self.device))

    def stages(self, client: int | None = None) -> Mapping[str, tuple[int, ...]]:
        """Shapes of one sample's maps in a client's network, by stage; see `LayeredNetwork`."""
        which = self.architecture(client)
        if which not in self._stages:
            self._stages[which] = self._stage_shapes(self.scratch_network(client))
        return self._stages[which]

    def held_network(self, tensors: Tensors, client: int | None = None) -> HeldNetwork:
        """A network of its own holding copies of `tensors`, in evaluation mode."""
        return HeldNetwork(self.scratch_network(client), tensors)

    def fixed_network(self, name: str) -> FixedNetwork:
        """The fixed network of a name, made once in this process; nobody need send it."""
        if name not in self._fixed:
            self._fixed[name] = self.make_fixed(name)
        return self._fixed[name]

    def _stage_shapes(self, network: nn.Module) -> dict[str, tuple[int, ...]]:
        """By asking the network, whatever weights it holds."""
        if not isinstance(network, LayeredNetwork) or not network.stage_names:
            return {}
        inputs = self.prepare(torch.zeros(1, *self.input_shape)).to(self.device)
        was_training = network.training
        network.eval()
        with torch.inference_mode():
            _, maps = network.features_and_maps(inputs)
        network.train(was_training)
        shapes = (tuple(map_.shape[1:]) for map_ in maps)
        return dict(zip(network.stage_names, shapes, strict=True))

    def architecture(self, client: int | None) -> int:
        """The place in `networks` of a client's network."""
        return 0 if client is None else client % len(self.networks)


class HeldNetwork:
    """A network to keep: copies of its tensors, and a module that says how to compute with them.

    The module is lent, usually the task's scratch network, and holds these tensors only while it is
    asked: whatever weights others load into it, this network answers with its own. So any number
    can live side by side at the price of their tensors, and none costs a module. No gradients are
    recorded.

    Args:
        module: a `Network`; its own weights are neither read nor changed.
        tensors: of all its parameters and buffers.
        without: start of the names that may be missing, of a part that will not be asked.
        training: compute as in training, by the statistics of each batch; see `batch_norm` of
            ensembles.
    """

    def __init__(
        self,
        module: nn.Module,
        tensors: Tensors,
        without: str | None = None,
        training: bool = False,
    ) -> None:
        own = module.state_dict()
        check_tensors(own, tensors, without)
        self._module = module
        self._training = training
        # in fresh memory of the module's layout, because both decide the last bits of products
        self._tensors = {n: torch.empty_like(own[n]).copy_(t) for n, t in tensors.items()}
        self._places = [(*_place(module, name), t) for name, t in self._tensors.items()]

    @property
    def feature_dim(self) -> int:
        """D."""
        return cast(Network, self._module).feature_dim

    def features(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, D] features."""
        return self._ask(cast(Network, self._module).features, inputs)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Of a module that shows its stages."""
        return cast(LayeredNetwork, self._module).stage_names

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, ...] inputs to [B, D] features and every stage's map."""
        return self._ask(cast(LayeredNetwork, self._module).features_and_maps, inputs)

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return self._ask(cast(Network, self._module).classify, features)

    def __call__(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, C] class scores."""
        return self._ask(cast(Network, self._module), inputs)

    def _ask(self, method: Callable[[Tensor], T], inputs: Tensor) -> T:
        # `torch.func.functional_call` does the same, and takes longer than a small network
        lent = [(where, name, where[name]) for where, name, _ in self._places]
        self._module.train(self._training)
        try:
            for where, name, tensor in self._places:
                where[name] = tensor.clone() if self._training else tensor  # for batch norm writes
            return method(inputs)
        finally:
            for where, name, tensor in lent:
                where[name] = tensor
            if self._training:
                self._module.eval()


def _place(module: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Where a module looks a tensor of its `state_dict` up: a dictionary and the key in it."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    return owner._parameters if key in owner._parameters else owner._buffers, key


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Detached copies of all parameters and buffers, in plain memory and layout.

    They are for others, who are on the CPU wherever the network is.
    """
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in network.state_dict().items()
    }


def load_into(network: nn.Module, tensors: Tensors) -> None:
    """Copy `tensors` into `network`; names and shapes must match exactly."""
    own = network.state_dict()  # shares memory with the network
    check_tensors(own, tensors)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def check_tensors(own: Tensors, tensors: Tensors, without: str | None = None) -> None:
    """Refuse tensors whose names and shapes are not a network's own.

    Args:
        own: the network's `state_dict()`.
        tensors: to be loaded.
        without: start of the names that may be missing.
    """
    wrong = sorted(
        name
        for name in own.keys() ^ tensors.keys()
        if without is None or name in tensors or not name.startswith(without)
    )
    if wrong:
        raise ProtocolError(
            f"the network and the tensors differ in {', '.join(wrong)}; "
            "use the model the tensors were trained with."
        )
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape:
            raise ProtocolError(
                f"{name} has shape {list(tensor.shape)}, the network needs {list(own[name].shape)}."
            )
