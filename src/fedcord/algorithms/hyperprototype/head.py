"""The classifier as two tensors, and its gradients in closed form.

For features z_i of class c and p_i = softmax(W z_i + b), cross-entropy has the gradients

    d/dz_i = Wᵀ(p_i − e_c),   d/dW = mean (p_i − e_c) z_iᵀ,   d/db = mean (p_i − e_c).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import head_prefix
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.core.contract import Env
from fedcord.core.tensors import Tensors


@dataclass(frozen=True)
class Head:
    """A linear classifier.

    Attributes:
        weight: [C, D].
        bias: [C].
    """

    weight: Tensor
    bias: Tensor

    def residuals(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """p_i − e_{y_i} for vectors [..., D] of classes `labels` [...], as [..., C]."""
        shares = torch.softmax(vectors @ self.weight.T + self.bias, dim=-1)
        return shares - nn.functional.one_hot(labels, len(self.weight)).to(shares.dtype)


def head_of(shared: Tensors, env: Env) -> Head:
    """The classifier within the model of `shared`."""
    weight, bias = _names(env)
    return Head(shared[weight], shared[bias])


def with_head(shared: Tensors, head: Head, env: Env) -> dict[str, Tensor]:
    """`shared` with another classifier in its model."""
    weight, bias = _names(env)
    return {**shared, weight: head.weight, bias: head.bias}


def head_problem(network: nn.Module) -> str | None:
    """Why a network's classifier is no such head, or None."""
    head = getattr(network, "head", None)
    if isinstance(head, nn.Linear) and head.bias is not None:
        return None
    return (
        f"fedhpro needs a linear classifier with a bias named `head`, which "
        f"{type(network).__name__} has not; choose a network of this library."
    )


def _names(env: Env) -> tuple[str, str]:
    start = f"{MODEL}.{head_prefix(env.task.scratch_network())}"
    return f"{start}weight", f"{start}bias"
