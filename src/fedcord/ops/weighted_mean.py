"""The weighted mean of named tensors, read once, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors


def weighted_mean(weighted: Iterable[tuple[Tensors, float]]) -> dict[str, Tensor]:
    """Σ w_k x_k / Σ w_k for every tensor, holding one sum and never all x_k.

    Sums run in float64 and in the order given, so that the result does not depend on the engine,
    one client alone is returned unchanged, and equal clients give exactly their common value.
    Floating tensors, batch-norm statistics included, are averaged; integer ones (such as
    `num_batches_tracked`) count events, have no mean, and the largest is taken.

    Args:
        weighted: pairs (tensors, weight) with weights >= 0, not all zero.
    """
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    total = 0.0
    for tensors, weight in weighted:
        total += weight
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                seen = sums.get(name)
                sums[name] = tensor.clone() if seen is None else torch.maximum(seen, tensor)
            elif name in sums:
                sums[name].add_(tensor, alpha=weight)
            else:
                dtypes[name] = tensor.dtype
                sums[name] = tensor.to(torch.float64, copy=True).mul_(weight)
    if not 0 < total < math.inf:
        raise ProtocolError(
            f"a weighted mean needs a positive total weight that is finite; it is {total}."
        )
    return {
        name: (value / total).to(dtypes[name]) if name in dtypes else value
        for name, value in sums.items()
    }
