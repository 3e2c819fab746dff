"""Random numbers, one row per sample or one row for the whole batch."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def uniform(generator: Generator, count: int, *columns: int, shared: bool = False) -> Tensor:
    """[count, *columns] numbers in [0, 1).

    With `shared` one row is drawn and repeated: every sample of the batch is then changed alike, as
    implementations do that hand a whole batch to a transform made for one image.
    """
    drawn = torch.rand(1 if shared else count, *columns, generator=generator)
    return drawn.expand(count, *columns)


def choose(numbers: Tensor, choices: Tensor | int) -> Tensor:
    """Uniform [0, 1) numbers as integers in [0, choices)."""
    return (numbers * choices).long()


def choose_rows(chosen: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Row by row `yes` where `chosen` [B], else `no`; both [B, ...].

    Gathering whole rows copies memory; `torch.where` would test every pixel, ten times slower.
    """
    rows = torch.arange(len(chosen)) + len(chosen) * chosen.logical_not()
    return torch.cat([yes, no]).index_select(0, rows)
