"""Numbers about hyper-prototypes for the log."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedcord.algorithms.hyperprototype.matching import Matched
from fedcord.core.contract import METRIC
from fedcord.ops.vectors import unit


def hyper_metrics(hyper: Tensor, first: Tensor) -> dict[str, float]:
    """How far hyper-prototypes [C, M, D] are from their first values, and how alike classes are."""
    centres = unit(hyper.mean(1))
    apart = ~torch.eye(len(centres), dtype=torch.bool)
    cosines = (centres @ centres.T)[apart]
    found = {"displacement": float(torch.linalg.vector_norm(hyper - first, dim=2).mean())}
    if len(cosines):
        found |= {"class_cosine": float(cosines.mean()), "class_cosine_max": float(cosines.max())}
    return found


def matching_metrics(matched: Matched) -> dict[str, float]:
    """Loss and mean cosine distance before and after a server call that moved something."""
    if matched.num_classes == 0:
        return {}
    return {
        "matching_start": matched.losses[0],
        "matching_end": matched.losses[1],
        "cosine_distance_start": matched.distances[0],
        "cosine_distance_end": matched.distances[1],
    }


def as_private(metrics: Mapping[str, float]) -> dict[str, Tensor]:
    """Under the names that the round loop writes to the log."""
    return {f"{METRIC}.{name}": torch.tensor(value) for name, value in metrics.items()}
