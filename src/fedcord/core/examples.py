"""Labelled examples as tensors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """Inputs as stored (`uint8` images, `float32` vectors, `int64` tokens) with their labels.

    Attributes:
        inputs: [N, ...]; pass them through `Task.prepare` before a network sees them.
        labels: [N] int64.
    """

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return self.labels.shape[0]


@dataclass(frozen=True)
class ClientData:
    """What one client holds. Any part may be empty."""

    train: Examples
    validation: Examples
    test: Examples
