"""How much a network's features of an input differ from those of pure noise, as IFFI asks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.ensemble import member_outputs
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.contract import Env
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors

NOISE = "fused.noise"


def noise_problem(task: Task) -> str | None:
    """Why inputs of this task cannot be compared with noise, or None."""
    if task.reads_numbers:
        return None
    return (
        "IFFI compares inputs with Gaussian noise, which token ids cannot be; choose "
        "server.kind=feature_ensemble for text."
    )


def noise_directions(result: Tensors, env: Env, samples: int, batch_norm: str) -> Tensor:
    """r_i = mean over ν of f_i(ν)/‖f_i(ν)‖, for every member: [K, D].

    One noise batch ν ~ N(0, I), the same for all members, is drawn when members are fused, so that
    scores do not depend on the batch an input comes in.
    """
    shape = (samples, *env.task.input_shape)
    noise = torch.randn(shape, generator=env.generator("iffi-noise")).to(env.task.device)
    members = member_outputs(result, env, features_of, batch_norm)
    rows = {place: F.normalize(features, dim=1).mean(0) for place, features in members(noise)}
    return torch.stack([rows[place] for place in sorted(rows)]).cpu()


def informativeness(features: Tensor, direction: Tensor) -> Tensor:
    """d_i(x) = 1 − cos(f_i(x), f_i(ν)), averaged over ν: [B], in [0, 2], 1 for a zero feature.

    Args:
        features: [B, D] of one member.
        direction: [D] its row of `noise_directions`; the mean of cosines is the product with it.
    """
    return (1 - F.normalize(features, dim=1) @ direction).clamp(min=0)
