"""One vector per class, some of which may not exist, and its form as named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.kit.class_means import dense_rows, present_rows
from fedcord.core.tensors import Tensors, TensorSpec

PROTO = "proto"
"""The usual prefix of prototypes in everything that is sent."""


@dataclass(frozen=True)
class Prototypes:
    """A table of class vectors.

    Attributes:
        values: [C, D]; rows of classes that do not exist are zero.
        present: [C] which classes exist: bool, or int32 numbers of examples.
    """

    values: Tensor
    present: Tensor

    @property
    def held(self) -> Tensor:
        """[C] bool: the classes that exist."""
        return self.present != 0

    @staticmethod
    def none(num_classes: int, dim: int) -> Prototypes:
        """The table in which no class exists."""
        return Prototypes(torch.zeros(num_classes, dim), torch.zeros(num_classes, dtype=torch.bool))

    def tensors(self, prefix: str = PROTO) -> dict[str, Tensor]:
        """`PREFIX.present` [C] and `PREFIX.mean` with one row per class that exists."""
        rows = present_rows(self.values, self.present)
        return {f"{prefix}.present": self.present, f"{prefix}.mean": rows}

    @staticmethod
    def of(tensors: Tensors, prefix: str = PROTO) -> Prototypes:
        """The inverse of `tensors`."""
        present = tensors[f"{prefix}.present"]
        return Prototypes(dense_rows(tensors[f"{prefix}.mean"], present), present)

    @staticmethod
    def spec(
        num_classes: int, dim: int, dtype: torch.dtype = torch.bool, prefix: str = PROTO
    ) -> dict[str, TensorSpec]:
        """What `tensors` gives, with `present` of type `dtype`."""
        present = f"{prefix}.present"
        return {
            present: TensorSpec((num_classes,), dtype),
            f"{prefix}.mean": TensorSpec((num_classes, dim), torch.float32, rows_of=present),
        }

    def to(self, device: torch.device) -> Prototypes:
        """The same table elsewhere."""
        return Prototypes(self.values.to(device), self.present.to(device))

    def replaced_by(self, newer: Prototypes) -> Prototypes:
        """The newer vector of each class that has one, and the old one of the others."""
        values = torch.where(newer.held[:, None], newer.values, self.values)
        return Prototypes(values, self.held | newer.held)


def joined(tables: Sequence[Prototypes], weights: Tensor | None = None) -> Prototypes:
    """The mean of each class over the tables that have it; no table adds to a class it lacks.

    Args:
        tables: at least one.
        weights: [K, C] of each table in each class, >= 0 and positive for some owner; equal when
            not given.
    """
    held = torch.stack([table.held for table in tables])  # [K, C]
    share = held.double() if weights is None else weights.double() * held
    values = torch.stack([table.values for table in tables]).double()  # [K, C, D]
    total = share.sum(0)
    mean = (share[..., None] * values).sum(0) / total.clamp(min=torch.finfo(torch.float64).tiny)[
        :, None
    ]
    exists = held.any(0)
    return Prototypes(torch.where(exists[:, None], mean, 0).float(), exists)
