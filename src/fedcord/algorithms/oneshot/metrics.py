"""Numbers about the clients' models side by side, as functions of what they uploaded.

Names are those of the first runs (docs/algorithms/ladder.md), and not always what they say:
`g_protos_std` is the *scale* of averaged prototypes, a gauge of how far alignment has shrunk them,
and `model_std` was called a variance. The scale-free numbers after them say how much clients agree.
All are 0, never NaN, where a single client leaves nothing to compare.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.algorithms.oneshot.member import Member


def measure(
    members: Sequence[Member], trained: Collection[str], anchors: Tensor | None = None
) -> dict[str, float]:
    """All numbers by name.

    Args:
        members: at least one.
        trained: names of encoder tensors that are parameters; buffers are left out.
        anchors: [C, D], or None.
    """
    spread = model_std(members, trained)
    numbers = {
        "g_protos_std": g_protos_std(members),
        "inter_client_proto_std": inter_client_proto_std(members),
        "proto_dispersion": proto_dispersion(members),
        "proto_cosine": proto_cosine(members),
        "model_std_mean": spread[0],
        "model_std_sum": spread[1],
    }
    if anchors is not None:
        numbers["anchor_cosine"] = anchor_cosine(members, anchors)
    return numbers


def g_protos_std(members: Sequence[Member]) -> float:
    """Standard deviation (unbiased) of all entries of the mean prototypes."""
    mean = _stacked(members).mean(0)
    return float(mean.std()) if mean.numel() > 1 else 0.0


def inter_client_proto_std(members: Sequence[Member]) -> float:
    """Standard deviation (unbiased) over clients of each prototype entry, averaged."""
    return float(_std_over_clients(_stacked(members)).mean())


def proto_dispersion(members: Sequence[Member]) -> float:
    """`inter_client_proto_std` over the root mean square of prototypes: free of their scale."""
    size = float(_stacked(members).square().mean().sqrt())
    return inter_client_proto_std(members) / size if size > 0 else 0.0


def proto_cosine(members: Sequence[Member]) -> float:
    """Mean cosine between two clients' prototypes of a class that both hold."""
    unit = F.normalize(_stacked(members), dim=2)  # [K, C, D]
    holds = torch.stack([member.counts > 0 for member in members]).double()  # [K, C]
    ours = unit * holds[:, :, None]
    # the sum over pairs is half of (sum of all)² minus each with itself
    pairs = (holds.sum(0).square() - holds.sum(0)).sum() / 2
    cosines = (ours.sum(0).square().sum() - ours.square().sum()) / 2
    return float(cosines / pairs) if pairs > 0 else 0.0


def anchor_cosine(members: Sequence[Member], anchors: Tensor) -> float:
    """Mean cosine between every client's prototype and its class's anchor."""
    cosines = F.cosine_similarity(_stacked(members), anchors.cpu().double()[None], dim=2)
    return float(cosines.mean())


def model_std(members: Sequence[Member], trained: Collection[str]) -> tuple[float, float]:
    """Standard deviation (unbiased) over clients of every trained number: its mean and sum.

    log σ² of learned policies, which was once counted in, stays with clients and is left out.
    """
    total, count = 0.0, 0
    for name in members[0].model:
        if name in trained:
            spread = _std_over_clients(torch.stack([m.model[name] for m in members]))
            total, count = total + float(spread.sum()), count + spread.numel()
    spread = _std_over_clients(_stacked(members))
    total, count = total + float(spread.sum()), count + spread.numel()
    return total / count, total


def _stacked(members: Sequence[Member]) -> Tensor:
    """All clients' prototypes [K, C, D] in double precision."""
    return torch.stack([member.prototypes for member in members]).double()


def _std_over_clients(stacked: Tensor) -> Tensor:
    return stacked.std(0) if len(stacked) > 1 else torch.zeros_like(stacked[0])
