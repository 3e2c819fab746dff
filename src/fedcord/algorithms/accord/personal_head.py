"""A head of its own for every client: the common one, adapted to its samples as in FedHiP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.closed_form import WEIGHT, aligned
from fedcord.algorithms.analytic.fedhip import GRIDS
from fedcord.core.tensors import Tensors
from fedcord.ops.anchored import AnchoredPath
from fedcord.ops.symmetric import unpack

GRAM, COUNT = "head.gram", "head.count"
"""What a server adds to its result for it: Σ φφ' + λI of everybody, and how many samples."""


def personal_head(features: Tensor, labels: Tensor, shared: Tensors) -> Tensor:
    """[D, C], its weight of own samples chosen by exact leave-one-out.

    Where classes weigh differently in the common head, they do so here.

    Args:
        features: [N, D] float64 of the client's samples, as they were summed.
        labels: [N].
        shared: with the common head, `GRAM` and `COUNT`.
    """
    weight = aligned(shared, WEIGHT)
    targets = F.one_hot(labels, weight.shape[1]).to(torch.float64)
    if CLASS_WEIGHT in shared:
        root = shared[CLASS_WEIGHT].sqrt()[labels][:, None]
        features, targets = features * root, targets * root
    path = AnchoredPath.of(features, targets, weight, unpack(shared[GRAM]))
    total = int(shared[COUNT])
    grid = [alpha * total / len(features) for alpha in GRIDS["relative"]]
    _, own = path.choose(grid, targets, contains_own=True)
    return own
