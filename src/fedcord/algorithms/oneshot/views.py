"""The rows a client trains on: two random views of every example, or the example itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from fedcord.algorithms.kit.local_sgd import PREPARE_AT_ONCE_BYTES
from fedcord.core.errors import ConfigError
from fedcord.core.examples import Examples
from fedcord.core.task import Task

VIEWS = ("auto", "none", "crop", "flip", "standard", "simclr", "simclr-batch")
PER_BATCH = ("simclr-batch",)
"""Views that draw once per call, so that two views need two calls."""

SMALL_IMAGE = 16
"""Below this side, moving an image by a pixel already changes what it shows."""

Rows = Callable[[Tensor, Generator], tuple[Tensor, Tensor]]
"""(numbers of examples [B], generator) to (network inputs [N, ...], labels [N])."""


def chosen_view(name: str, task: Task) -> str:
    """What `auto` stands for: simclr for images, none for tiny ones and for other data."""
    if name != "auto":
        return name
    has_room = "simclr" in task.augmentations and min(task.input_shape[-2:]) >= SMALL_IMAGE
    return "simclr" if has_room else "none"


def view_problem(view: str, task: Task) -> str:
    """The words for a view this data does not have."""
    allowed = ", ".join(("auto", "none", *task.augmentations))
    return f"local.views = '{view}' does not fit this data; allowed: {allowed}."


def rows_of(name: str, examples: Examples, task: Task) -> Rows:
    """How batches of `examples` become rows.

    With a view, N = 2B: first one view of every example, then another. Without, N = B; a lone
    example is repeated, because batch normalisation needs two rows.

    Args:
        name: one of `VIEWS`.
        examples: the client's training part, as stored.
        task: knows the views of its kind of data.
    """
    view = chosen_view(name, task)
    stored, labels = examples.inputs, examples.labels
    if view == "none":
        is_small = math.prod(stored.shape) * 4 <= PREPARE_AT_ONCE_BYTES
        prepared = task.prepare(stored) if is_small else None

        def plain(batch: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
            taken = batch if len(batch) > 1 else batch.repeat(2)
            inputs = task.prepare(stored[taken]) if prepared is None else prepared[taken]
            return inputs.to(task.device), labels[taken].to(task.device)

        return plain
    if view not in task.augmentations:
        raise ConfigError(view_problem(view, task))
    change = task.augmentations[view]

    def viewed(batch: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        twice = batch.repeat(2)
        if view in PER_BATCH:
            chosen = stored[batch]
            inputs = torch.cat([change(chosen, generator), change(chosen, generator)])
        else:
            inputs = change(stored[twice], generator)
        return inputs.to(task.device), labels[twice].to(task.device)

    return viewed
