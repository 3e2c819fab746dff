"""The networks as somebody would write them who has never heard of fedcord."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PlainCNN(nn.Module):
    """Convolution, ReLU, pooling, twice; then two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.fc1 = nn.Linear(1024, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class TunedCNN(PlainCNN):
    """The same function, pooled before the ReLU, which then has a quarter of the work."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class PlainMLP(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 100)
        self.fc2 = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def plain_network(workload: str) -> nn.Module:
    """What peers train."""
    return PlainCNN() if workload == "W1" else PlainMLP()


def tuned_network(workload: str) -> nn.Module:
    """What the best bare loop trains: the same function, arranged for this kind of processor."""
    if workload == "W1":
        return TunedCNN().to(memory_format=torch.channels_last)
    return PlainMLP()


def load_weights(network: nn.Module, weights: Sequence[Tensor]) -> None:
    """Copy weights in the order of the network's parameters."""
    with torch.no_grad():
        for parameter, weight in zip(network.parameters(), weights, strict=True):
            parameter.copy_(weight)
