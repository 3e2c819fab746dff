"""Fully connected networks, logistic regression included."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

from torch import Generator, Tensor, nn

from fedcord.models.initial import materialise
from fedcord.models.options import Inputs, MLPOptions, NoOptions


class MLP(nn.Module):
    """Linear layers with ReLU between them; without hidden layers, logistic regression.

    Attributes:
        linear_layers: every `nn.Linear` in order. Nothing else has weights, so code that trains
            many clients at once can stack these and knows the whole network.
        feature_dim: units of the last hidden layer, or the input's length.
    """

    linear_layers: nn.ModuleList

    def __init__(self, input_dim: int, hidden: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        sizes = [input_dim, *hidden, num_classes]
        self.linear_layers = nn.ModuleList(
            nn.Linear(before, after) for before, after in pairwise(sizes)
        )
        self.feature_dim = sizes[-2]

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        return cast(nn.Linear, self.linear_layers[-1])

    def features(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs, flattened, to [B, D] after the last hidden layer's ReLU."""
        return self.features_and_maps(inputs)[0]

    @property
    def stage_names(self) -> tuple[str, ...]:
        """`hidden1`, …: all hidden layers but the last, which is the features."""
        return tuple(f"hidden{number}" for number in range(1, len(self.linear_layers) - 1))

    def features_and_maps(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """[B, ...] inputs to [B, D] features and [B, H] after every ReLU under them."""
        x, maps = inputs.flatten(1), []
        for layer in self.linear_layers[:-1]:
            x = layer(x).relu()
            maps.append(x)
        return x, maps[:-1]

    def classify(self, features: Tensor) -> Tensor:
        """[B, D] features to [B, C] class scores."""
        return cast(Tensor, self.linear_layers[-1](features))

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, ...] inputs to [B, C] class scores."""
        return self.classify(self.features(inputs))


def build_mlp(options: MLPOptions, inputs: Inputs, generator: Generator | None) -> MLP:
    """A fully connected network for `inputs`."""
    size = math.prod(inputs.shape)
    return materialise(lambda: MLP(size, options.hidden, inputs.num_classes), generator)


def build_logistic(options: NoOptions, inputs: Inputs, generator: Generator | None) -> MLP:
    """Logistic regression: one linear layer on the flattened input."""
    return build_mlp(MLPOptions(hidden=()), inputs, generator)
