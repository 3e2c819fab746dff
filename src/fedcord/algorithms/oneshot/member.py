"""One client's upload, as the server sees it, and its form as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedcord.core.tensors import Tensors, TensorSpec, prefixed, select

MODEL, EXTRA = "model", "extra"
PROTOTYPES, COUNTS = "proto.weight", "proto.count"


@dataclass(frozen=True)
class Member:
    """What one client contributes to the fused model.

    Attributes:
        model: encoder tensors, named as in `network.state_dict()`, without the network's head.
        prototypes: [C, D] the client's classifier.
        counts: [C] float32 training examples of each class.
        size: training examples.
        extra: what only some servers ask for, such as Kronecker factors; empty for most.
    """

    model: Tensors
    prototypes: Tensor
    counts: Tensor
    size: float
    extra: Tensors = field(default_factory=dict)


def upload(member: Member) -> dict[str, Tensor]:
    """The tensors of an update; `size` travels as its weight."""
    return {
        **prefixed(MODEL, member.model),
        PROTOTYPES: member.prototypes,
        COUNTS: member.counts,
        **prefixed(EXTRA, member.extra),
    }


def received(tensors: Tensors, weight: float) -> Member:
    """The inverse of `upload`."""
    return Member(
        model=select(tensors, MODEL),
        prototypes=tensors[PROTOTYPES],
        counts=tensors[COUNTS],
        size=weight,
        extra=select(tensors, EXTRA),
    )


def upload_spec(
    model: Tensors, num_classes: int, feature_dim: int, extra: Mapping[str, TensorSpec]
) -> dict[str, TensorSpec]:
    """What `upload` must give for a network with the encoder tensors `model`."""
    return {
        **{f"{MODEL}.{n}": TensorSpec(tuple(t.shape), t.dtype) for n, t in model.items()},
        PROTOTYPES: TensorSpec((num_classes, feature_dim), torch.float32),
        COUNTS: TensorSpec((num_classes,), torch.float32, counts=True),
        **{f"{EXTRA}.{name}": spec for name, spec in extra.items()},
    }
