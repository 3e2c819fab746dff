"""One row per class, of which only those that exist are sent."""

from __future__ import annotations

import torch
from torch import Tensor


def present_rows(dense: Tensor, present: Tensor) -> Tensor:
    """The rows of `dense` [C, ...] where `present` [C] is not zero, in their order."""
    return dense[present != 0]


def dense_rows(rows: Tensor, present: Tensor) -> Tensor:
    """The inverse of `present_rows`: [C, ...] with rows of zeros where there are none."""
    dense = torch.zeros((len(present), *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
    dense[present != 0] = rows
    return dense
