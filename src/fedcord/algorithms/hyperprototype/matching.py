"""Hyper-prototypes moved until the gradients they induce point where clients' gradients do."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.kit.linear_head import Head
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param
from fedcord.ops.vectors import SMALLEST

SMOOTHING = 1e-6
"""Added to the denominators of the code's metrics."""


@dataclass(frozen=True)
class Matched:
    """The outcome of one server call.

    Attributes:
        hyper: [C, M, D].
        num_classes: how many classes took part.
        losses: before and after, summed over the classes that took part.
        distances: mean cosine distance of those classes, before and after.
    """

    hyper: Tensor
    num_classes: int
    losses: tuple[float, float]
    distances: tuple[float, float]


@dataclass(frozen=True)
class Matching:
    """How the server fits hyper-prototypes to the clients' gradients."""

    steps: int = param(30, "SGD steps per round (code: rounds_of_hp)", at_least=0)
    lr: float = param(10.0, "learning rate of these steps", above=0)
    metric: str = param("cosine", "distance of gradients", choices=("coordinate", "cosine", "mse"))
    classifier: str = param(
        "broadcast",
        "whose gradients are induced: the one clients used, or the one of the new model",
        choices=("updated", "broadcast"),
    )

    def __post_init__(self) -> None:
        check_params(self)

    def fit(
        self, hyper: Tensor, targets: Tensor, owned: Tensor, head: Head, per_vector: bool
    ) -> Matched:
        """Joint gradient steps over all classes that have a target.

        Args:
            hyper: [C, M, D].
            targets: [C, D] mean gradient of the clients that own the class.
            owned: [C] bool; other classes keep their hyper-prototypes.
            head: the classifier that induces gradients.
            per_vector: whether induced gradients carry the code's factor 1/M.
        """
        usable = owned & (torch.linalg.vector_norm(targets, dim=1) >= SMALLEST)
        classes = usable.nonzero()[:, 0]
        if len(classes) == 0:
            return Matched(hyper.clone(), 0, (0.0, 0.0), (0.0, 0.0))
        wanted, factor = targets[classes], 1 / hyper.shape[1] if per_vector else 1.0
        moving = hyper[classes].clone()

        def gap(metric: str) -> Tensor:
            return gradient_gap(wanted, factor * induced_gradients(moving, classes, head), metric)

        with torch.no_grad():
            before = float(gap(self.metric).sum()), float(gap("cosine").mean())
        moving.requires_grad_()
        for _ in range(self.steps):
            (gradient,) = torch.autograd.grad(gap(self.metric).sum(), moving)
            with torch.no_grad():
                moving -= self.lr * gradient
        moving = moving.detach()
        if not bool(torch.isfinite(moving).all()):
            raise NumericalError(
                f"the hyper-prototypes are not finite; lower matching.lr (now {self.lr:g})."
            )
        after = float(gap(self.metric).sum()), float(gap("cosine").mean())
        fitted = hyper.clone()
        fitted[classes] = moving
        return Matched(fitted, len(classes), (before[0], after[0]), (before[1], after[1]))


def induced_gradients(vectors: Tensor, classes: Tensor, head: Head) -> Tensor:
    """G^c = Wᵀ(mean_m softmax(W u_{c,m} + b) − e_c) of vectors [N, M, D], as [N, D]."""
    labels = classes[:, None].expand(vectors.shape[:2])
    return head.residuals(vectors, labels).mean(1) @ head.weight


def gradient_gap(wanted: Tensor, found: Tensor, metric: str) -> Tensor:
    """The distance of each row of two [N, D] matrices, [N].

    `cosine` is 1 − cos. `coordinate` is the code's: a row cosine applied to every entry alone,
    which counts entries of unlike sign twice and of like sign not at all, smoothed near zero.
    `mse` is the squared distance.
    """
    if metric == "mse":
        return (wanted - found).square().sum(1)
    if metric == "coordinate":
        product = wanted * found
        return (1 - product / (product.abs() + SMOOTHING)).sum(1)
    lengths = torch.linalg.vector_norm(wanted, dim=1) * torch.linalg.vector_norm(found, dim=1)
    cosine: Tensor = (wanted * found).sum(1) / lengths.clamp(min=SMALLEST)
    return 1 - cosine
