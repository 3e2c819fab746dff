"""What tests of teachers and students share: drawn numbers, softmax by hand, a few models."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedcord.core.contract import ClientId, Env
from fedcord.core.task import tensors_of
from fedcord.core.tensors import Tensors


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(s) for s in scores)
    return [math.exp(s) / total for s in scores]


def some_models(here: Env) -> dict[ClientId, Tensors]:
    models: dict[ClientId, Tensors] = {}
    for client in (0, 2, 5):
        network = here.task.initial_network(torch.Generator().manual_seed(client))
        for name, buffer in network.named_buffers():
            if buffer.is_floating_point():
                drawn_ = torch.rand(buffer.shape, generator=torch.Generator().manual_seed(client))
                buffer.copy_(0.05 + drawn_ if name.endswith("var") else 0.2 * drawn_ - 0.1)
        models[client] = tensors_of(network)
    return models
