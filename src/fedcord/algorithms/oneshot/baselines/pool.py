"""All generated inputs so far, in shuffled batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor


class Pool:
    """Rows that belong together, such as inputs with their labels; grows batch by batch."""

    def __init__(self, batch_size: int, generator: Generator) -> None:
        self._batch_size, self._generator = batch_size, generator
        self._rows: list[tuple[Tensor, ...]] = []

    def add(self, *rows: Tensor) -> None:
        """Tensors of equal length, in the same order at every call."""
        self._rows.append(rows)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Everything once, in a new random order.

        A last batch of a single row joins the one before it: batch normalisation needs two.
        """
        columns = [torch.cat(column) for column in zip(*self._rows, strict=True)]
        order = torch.randperm(len(columns[0]), generator=self._generator)
        parts = list(order.split(self._batch_size))
        if len(parts) > 1 and len(parts[-1]) == 1:
            parts[-2:] = [torch.cat(parts[-2:])]
        for part in parts:
            yield tuple(column[part] for column in columns)
