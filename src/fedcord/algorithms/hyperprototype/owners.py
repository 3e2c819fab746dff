"""Means over the clients that own a class, read once and in order."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.algorithms.kit.class_means import dense_rows
from fedcord.ops.vectors import unit


class OwnerMean:
    """Collects one tensor per class and client; clients that lack a class do not count in it.

    Attributes:
        num_owners: [C] clients heard that own the class.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_owners = torch.zeros(num_classes, dtype=torch.int64)
        self._sum: Tensor | None = None
        self._directions: Tensor | None = None
        self._num_directions = torch.zeros(num_classes, dtype=torch.int64)

    def add(self, rows: Tensor, present: Tensor) -> None:
        """Hear a client's rows [C_k, ...] of the classes where `present` [C] holds."""
        own = dense_rows(rows, present).double()
        directions = unit(own.flatten(1))
        if self._sum is None or self._directions is None:
            self._sum, self._directions = own, directions
        else:
            self._sum, self._directions = self._sum + own, self._directions + directions
        self.num_owners += present.long()
        self._num_directions += (directions != 0).any(1).long()

    def mean(self) -> Tensor:
        """[C, ...] float32; zero where nobody owns the class."""
        assert self._sum is not None
        shape = (-1, *[1] * (self._sum.dim() - 1))
        return (self._sum / self.num_owners.clamp(min=1).view(shape)).float()

    def consistency(self) -> float | None:
        """Mean cosine of the rows that two owners of a class sent, over all pairs of all classes.

        Rows v_k of length one have Σ_{i≠j} v_i·v_j = |Σ v_k|² − n over n owners. None when no class
        has two.
        """
        assert self._directions is not None
        count = self._num_directions.double()
        pairs = count * (count - 1)
        if not bool(pairs.any()):
            return None
        alike = self._directions.square().sum(1) - count
        return float(alike[count >= 2].sum() / pairs.sum())
