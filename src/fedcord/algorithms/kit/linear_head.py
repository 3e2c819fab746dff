"""The classifier of a network as two tensors, its gradients in closed form, and its training.

For features z_i of class c and p_i = softmax(W z_i + b), cross-entropy has the gradients

    d/dz_i = Wᵀ(p_i − e_c),   d/dW = mean (p_i − e_c) z_iᵀ,   d/db = mean (p_i − e_c).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

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


def train_head(
    head: Head,
    vectors: Tensor,
    labels: Tensor,
    epochs: int,
    lr: float,
    batch_size: int,
    order: Generator,
) -> None:
    """Train `head` in place by SGD on the cross-entropy of vectors [N, D] with labels [N]."""
    for _ in range(epochs):
        for batch in torch.randperm(len(vectors), generator=order).split(batch_size):
            residual = head.residuals(vectors[batch], labels[batch]).mul_(-lr / len(batch))
            head.weight.addmm_(residual.T, vectors[batch])
            head.bias.add_(residual.sum(0))


def head_problem(network: nn.Module, method: str) -> str | None:
    """Why a network's classifier is no such head as a method needs, or None."""
    head = getattr(network, "head", None)
    if isinstance(head, nn.Linear) and head.bias is not None:
        return None
    return (
        f"{method} needs a linear classifier with a bias named `head`, which "
        f"{type(network).__name__} has not; choose a network of this library."
    )


def _names(env: Env) -> tuple[str, str]:
    start = f"{MODEL}.{head_prefix(env.task.scratch_network())}"
    return f"{start}weight", f"{start}bias"
