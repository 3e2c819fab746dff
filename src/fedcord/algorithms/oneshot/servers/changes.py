"""How far a member went from the common start, as one vector."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedcord.algorithms.oneshot.member import MODEL, PROTOTYPES, Member
from fedcord.algorithms.oneshot.servers.param_avg import MODEL as FUSED_MODEL
from fedcord.algorithms.oneshot.servers.param_avg import PROTOTYPES as FUSED_PROTOTYPES
from fedcord.core.contract import Env
from fedcord.core.tensors import Tensors


def weight_names(start: Tensors, env: Env) -> Iterator[tuple[str, str]]:
    """What is trained, in one order: names in the first message, and in the fused model."""
    for name, _ in env.task.scratch_network().named_parameters():
        if f"{MODEL}.{name}" in start:  # the head is not sent
            yield f"{MODEL}.{name}", f"{FUSED_MODEL}.{name}"
    yield PROTOTYPES, FUSED_PROTOTYPES


def change_of(member: Member, start: Tensors, env: Env) -> Tensor:
    """[N] float64: the member's weights and prototypes minus those it was first sent."""
    parts = []
    for name, _ in weight_names(start, env):
        own = member.prototypes if name == PROTOTYPES else member.model[name[len(MODEL) + 1 :]]
        parts.append((own.double() - start[name].double()).flatten())
    return torch.cat(parts)


def changed(start: Tensors, change: Tensor, env: Env) -> dict[str, Tensor]:
    """The start plus a change [N], as part of a fused model."""
    names = list(weight_names(start, env))
    sizes = [start[name].numel() for name, _ in names]
    return {
        fused: (start[name].double() + part.view(start[name].shape)).to(start[name].dtype)
        for (name, fused), part in zip(names, change.split(sizes), strict=True)
    }
