"""What the server can see of prototypes: how far apart classes are, and how well clients agree."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.contract import METRIC
from fedcord.core.tensors import prefixed
from fedcord.ops.vectors import unit


def measure(
    uploads: Sequence[Prototypes], before: Prototypes, after: Prototypes
) -> dict[str, Tensor]:
    """Private scalars for the log; a number that does not exist yet is left out.

    - `inter_class`: mean distance between two global prototypes.
    - `intra_class`: mean distance of a client's prototype to the clients' mean of its class.
    - `consistency`: mean cosine of two clients' prototypes of one class.
    - `drift`: mean distance of a global prototype to what it was a round ago.

    Args:
        uploads: what clients sent in this round.
        before: the global prototypes clients started from.
        after: the new ones.
    """
    found: dict[str, Tensor] = {}
    apart = torch.pdist(after.values[after.held].double())
    if len(apart):
        found["inter_class"] = apart.mean()
    kept = before.held & after.held
    if bool(kept.any()):
        moved = (after.values - before.values)[kept].double()
        found["drift"] = torch.linalg.vector_norm(moved, dim=1).mean()
    if uploads:
        found |= _agreement(uploads)
    return prefixed(f"{METRIC}.prototype", {name: value.float() for name, value in found.items()})


def _agreement(uploads: Sequence[Prototypes]) -> dict[str, Tensor]:
    held = torch.stack([table.held for table in uploads])  # [K, C]
    values = torch.stack([table.values for table in uploads]).double()  # [K, C, D]
    found = {}
    if bool(held.any()):
        centre = joined(uploads).values.double()
        away = torch.linalg.vector_norm(values - centre, dim=2)
        found["intra_class"] = away[held].mean()
    # Σ_{i≠j} u_i·u_j = ||Σ u_i||² − Σ ||u_i||²: all pairs of a class without forming them
    directions = unit(values) * held[..., None]
    pairs = held.sum(0) * (held.sum(0) - 1)
    if bool(pairs.any()):
        alike = directions.sum(0).square().sum(1) - directions.square().sum((0, 2))
        found["consistency"] = alike.sum() / pairs.sum()
    return found
