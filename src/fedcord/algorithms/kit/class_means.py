"""One row per class: the mean output of a network, and rows of those that exist."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedcord.algorithms.kit.outputs import Output, features_of
from fedcord.core.contract import Env
from fedcord.core.examples import Examples

BATCH = 256
"""Examples per forward pass."""


def class_means(
    network: nn.Module,
    examples: Examples,
    env: Env,
    output: Output = features_of,
    width: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean feature of every class [C, D], zero where there is none, and counts [C].

    Another `output` of the network is averaged where its `width` is given.
    """
    classes = env.task.num_classes
    columns = int(network.feature_dim) if width is None else width  # type: ignore[arg-type]
    sums = torch.zeros(classes, columns, dtype=torch.float64)
    with torch.inference_mode():
        for start in range(0, len(examples), BATCH):
            chosen = slice(start, start + BATCH)
            inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
            sums.index_add_(0, examples.labels[chosen], output(network, inputs).cpu().double())
    counts = torch.bincount(examples.labels, minlength=classes)
    return (sums / counts.clamp(min=1)[:, None]).float(), counts.float()


def present_rows(dense: Tensor, present: Tensor) -> Tensor:
    """The rows of `dense` [C, ...] where `present` [C] is not zero, in their order."""
    return dense[present != 0]


def dense_rows(rows: Tensor, present: Tensor) -> Tensor:
    """The inverse of `present_rows`: [C, ...] with rows of zeros where there are none."""
    dense = torch.zeros((len(present), *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
    dense[present != 0] = rows
    return dense
