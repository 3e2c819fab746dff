"""What a server does with each tensor of a network when it joins clients' models.

The rule is on the type alone, so that it holds for every network and needs no list of names:

- floating point (weights, biases, batch normalisation's running mean and variance): averaged;
- integers (batch normalisation's count of batches): the maximum is taken. A mean of counts is not
  an integer, and the count plays no part in prediction while momentum is fixed.

Averaging the running statistics is a choice: it is the common one, and that of published prototype
results. Networks with `norm=group` have no buffers, so the question does not arise there.

Code below this layer (the server mean) cannot import this module and applies the same rule by
`Tensor.is_floating_point()`; the test of this module holds the two together for every network.
"""

from __future__ import annotations

from enum import Enum

from torch import Tensor

from fedcord.core.tensors import Tensors


class Joining(Enum):
    """How the clients' values of one tensor become the server's."""

    MEAN = "mean"
    MAXIMUM = "maximum"


def joining_of(tensor: Tensor) -> Joining:
    """How a tensor with this type is joined."""
    return Joining.MEAN if tensor.is_floating_point() else Joining.MAXIMUM


def joining_policy(tensors: Tensors) -> dict[str, Joining]:
    """The rule for every tensor of a network, by name."""
    return {name: joining_of(tensor) for name, tensor in tensors.items()}
