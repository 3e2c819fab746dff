"""What a client minimises beside cross-entropy: contrast with, and alignment to, hyper-prototypes.

With hyper-prototypes u_{j,m} of class j, a_j = mean_m unit(u_{j,m}), H_j = mean_m u_{j,m} and
similarities s_j = unit(z)·a_j of a feature z of class c:

    HPCL = log(1 + Σ_{j≠c} e^{(s_j + d_k)/τ} / e^{s_c/τ}),   HPAL = SmoothL1(unit(z), unit(H_c)).

d_k is the client's margin. Hyper-prototypes are constants here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import Loss
from fedcord.algorithms.kit.outputs import features_of
from fedcord.core.params import check_params, param
from fedcord.ops.vectors import unit


@dataclass(frozen=True)
class HyperObjective:
    """The client's loss."""

    contrast_weight: float = param(
        1.0, "weight of HPCL (paper: λ_c)", at_least=0, space=(0.1, 10.0, "log")
    )
    alignment_weight: float = param(
        1.0, "weight of HPAL (paper: λ_a)", at_least=0, space=(0.1, 10.0, "log")
    )
    temperature: float = param(0.05, "of the contrast (paper: τ)", above=0)
    margin: str = param(
        "paper",
        "client's margin: none, on negatives' similarities, or in the denominator as in the code",
        choices=("off", "paper", "reference"),
    )
    margin_prototypes: str = param(
        "normalised", "class means behind the margin", choices=("normalised", "raw")
    )
    contrast_reduction: str = param(
        "mean",
        "batch mean, or divided once more by the batch size as in the code",
        choices=("mean", "reference"),
    )
    alignment_reduction: str = param(
        "mean", "mean or sum over the feature's entries", choices=("mean", "sum")
    )

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_plain(self) -> bool:
        """Whether nothing but cross-entropy is left."""
        return self.contrast_weight == 0 and self.alignment_weight == 0

    @property
    def has_margin(self) -> bool:
        """Whether the client's class means are needed."""
        return self.margin != "off" and self.contrast_weight > 0

    def client_margin(self, means: Tensor) -> float:
        """d_k from the client's class means [C, D], zero where it lacks the class.

        1/(C−1)² Σ_{i≠j} p_i·p_j, which is |Σ p|² − Σ |p|² over (C−1)².
        """
        rows = (unit(means) if self.margin_prototypes == "normalised" else means).double()
        pairs = rows.sum(0).square().sum() - rows.square().sum()
        return float(pairs) / max(len(rows) - 1, 1) ** 2

    def loss(self, hyper: Tensor, margin: float) -> Loss:
        """The loss of a batch, for hyper-prototypes [C, M, D] and the client's margin."""
        directions = unit(hyper).mean(1)  # [C, D], a_j
        centres = unit(hyper.mean(1))  # [C, D], unit(H_j)

        def loss(network: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
            features = features_of(network, inputs)
            scores: Tensor = network.classify(features)  # type: ignore[operator]
            total, z = F.cross_entropy(scores, labels), unit(features)
            if self.contrast_weight > 0:
                contrast = self.contrast(z @ directions.T, labels, margin)
                total = total + self.contrast_weight * contrast
            if self.alignment_weight > 0:
                total = total + self.alignment_weight * self.alignment(z, centres[labels])
            return total

        return loss

    def contrast(self, similarity: Tensor, labels: Tensor, margin: float) -> Tensor:
        """HPCL of a batch with similarities [B, C], a scalar."""
        scaled = similarity / self.temperature
        own = scaled.gather(1, labels[:, None])[:, 0]
        if self.margin == "paper":
            is_own = F.one_hot(labels, scaled.shape[1]).bool()
            others = scaled.masked_fill(is_own, -float("inf"))
            far = torch.logsumexp(others, 1) + margin / self.temperature
            each = F.softplus(far - own)
        elif self.margin == "reference" and margin != 0:
            each = _log_of_sum(torch.logsumexp(scaled, 1), margin) - own
        else:
            each = F.cross_entropy(scaled, labels, reduction="none")
        mean = each.mean()
        return mean / len(labels) if self.contrast_reduction == "reference" else mean

    def alignment(self, directions: Tensor, targets: Tensor) -> Tensor:
        """HPAL between directions [B, D] and those of their classes [B, D], a scalar."""
        mean = F.smooth_l1_loss(directions, targets)
        return mean * directions.shape[1] if self.alignment_reduction == "sum" else mean


def _log_of_sum(log_sum: Tensor, added: float) -> Tensor:
    """log(e^log_sum + added), also for a negative `added`, where the sum is kept above zero."""
    if added > 0:
        return torch.logaddexp(log_sum, torch.tensor(added, device=log_sum.device).log())
    return log_sum + torch.log1p((added * torch.exp(-log_sum)).clamp(min=-1 + 1e-6))
