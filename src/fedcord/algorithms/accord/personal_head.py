"""A head of its own for every client: the common one, bent to the client's samples as in FedHiP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.closed_form import WEIGHT, aligned
from fedcord.algorithms.analytic.fedhip import GRIDS
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from fedcord.core.tensors import Tensors
from fedcord.ops.anchored import AnchoredPath
from fedcord.ops.symmetric import unpack

GRAM, COUNT = "head.gram", "head.count"
"""What a server adds to its result for it: Σ φφ' + λI of everybody, and how many samples."""


def personal_head(joint: JointFeatures, shared: Tensors, data: Examples, env: Env) -> Tensor:
    """[D, C], its weight of own samples chosen by exact leave-one-out.

    Where classes weigh differently in the common head, they do so here.
    """
    features = torch.cat([rows for rows, _ in joint.batches(data, shared, env)])
    targets = F.one_hot(data.labels, env.task.num_classes).to(torch.float64)
    if CLASS_WEIGHT in shared:
        root = shared[CLASS_WEIGHT].sqrt()[data.labels][:, None]
        features, targets = features * root, targets * root
    path = AnchoredPath.of(features, targets, aligned(shared, WEIGHT), unpack(shared[GRAM]))
    total = int(shared[COUNT])
    grid = [alpha * total / len(features) for alpha in GRIDS["relative"]]
    _, weight = path.choose(grid, targets, contains_own=True)
    return weight
