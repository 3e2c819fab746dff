"""The gradient of a loss after a step: Per-FedAvg's, without second derivatives of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.kit.pull import trained

Values = list[Tensor]
Gradient = Callable[[Sequence[Tensor]], tuple[Tensor, Values]]
"""Values of the trained parameters to the loss of a batch there, and its gradient."""


def meta_gradient(
    start: Values,
    first: Gradient,
    second: Gradient,
    rate: float,
    difference: float,
    third: Gradient | None = None,
) -> tuple[Tensor, Values]:
    """f(w'; D') and (I − α ∇²f(w; D'')) ∇f(w'; D'), or without the Hessian where `third` is None.

    Args:
        start: w.
        first: gradients on D.
        second: gradients on D'.
        rate: α.
        difference: δ.
        third: gradients on D''.
    """
    value, descent = second(torch._foreach_sub(start, first(start)[1], alpha=rate))
    if third is None:
        return value, list(descent)
    ahead, behind = (
        third(torch._foreach_add(start, descent, alpha=sign * difference))[1] for sign in (1, -1)
    )
    product = torch._foreach_div(torch._foreach_sub(ahead, behind), 2 * difference)
    return value, list(torch._foreach_sub(descent, product, alpha=rate))


def at_batch(network: nn.Module, inputs: Tensor, labels: Tensor) -> Gradient:
    """The cross-entropy of a batch; `network` is left with the values it was asked about."""

    def gradient(values: Sequence[Tensor]) -> tuple[Tensor, Values]:
        load_values(network, values)
        loss = cross_entropy(network, inputs, labels)
        return loss.detach(), list(torch.autograd.grad(loss, trained(network)))

    return gradient


def load_values(network: nn.Module, values: Sequence[Tensor]) -> None:
    """Copy values into the parameters that are trained."""
    with torch.no_grad():
        for weight, value in zip(trained(network), values, strict=True):
            weight.copy_(value)
