"""A network whose classifier sits on a two-layer projection of its features."""

from __future__ import annotations

from typing import cast

import torch
from torch import Generator, Tensor, nn

from fedcord.algorithms.kit.encoder import encoder_tensors, head_prefix
from fedcord.core.task import load_into
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.linear_start import linear_start

NETWORK = "network"
LAYERS = ("hidden", "out", "head")


class Projected(nn.Module):
    """Features [B, D] → linear, ReLU, linear → [B, P], which the classifier reads.

    Its tensors are those of the network without its own head, which is not used, and three layers.

    Attributes:
        network: gives the features.
        feature_dim: P.
    """

    def __init__(self, network: nn.Module, width: int, num_classes: int) -> None:
        super().__init__()
        dim = int(network.feature_dim)  # type: ignore[arg-type]
        self.network = network
        self.feature_dim = width
        with torch.device("meta"):  # PyTorch would draw weights from its global generator
            hidden, out = nn.Linear(dim, dim), nn.Linear(dim, width)
            head = nn.Linear(width, num_classes)
        device = next(network.parameters()).device
        self.hidden, self.out = hidden.to_empty(device=device), out.to_empty(device=device)
        self.head = head.to_empty(device=device)

    @property
    def unused(self) -> str:
        """Start of the names of the network's own head."""
        return f"{NETWORK}.{head_prefix(self.network)}"

    def features(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, P] projections."""
        features: Tensor = self.network.features(inputs)  # type: ignore[operator]
        return cast(Tensor, self.out(self.hidden(features).relu()))

    def classify(self, features: Tensor) -> Tensor:
        """[B, P] projections to [B, C] class scores."""
        return cast(Tensor, self.head(features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, C] class scores."""
        return self.classify(self.features(inputs))

    def load(self, tensors: Tensors) -> None:
        """Copy what `sent_tensors` gave; the network's own head keeps what it held."""
        own = {n: t for n, t in self.network.state_dict().items() if self._is_head(n)}
        load_into(self.network, {**own, **select(tensors, NETWORK)})
        for name in LAYERS:
            load_into(self.get_submodule(name), select(tensors, name))

    def sent_tensors(self) -> dict[str, Tensor]:
        """Copies of all that is trained and kept."""
        layers = {
            f"{name}.{kind}": tensor.detach().clone()
            for name in LAYERS
            for kind, tensor in self.get_submodule(name).state_dict().items()
        }
        return {**prefixed(NETWORK, encoder_tensors(self.network)), **layers}

    def draw_layers(self, generator: Generator) -> None:
        """First weights of the three layers."""
        with torch.no_grad():
            for name in LAYERS:
                layer = cast(nn.Linear, self.get_submodule(name))
                weight, bias = linear_start(layer.out_features, layer.in_features, generator)
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)

    def _is_head(self, name: str) -> bool:
        return name.startswith(head_prefix(self.network))
