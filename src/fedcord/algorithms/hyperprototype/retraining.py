"""A new classifier, trained on vectors whose classifier gradients match those of the clients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.hyperprototype.matching import SMOOTHING
from fedcord.algorithms.kit.descent import linear_start
from fedcord.algorithms.kit.linear_head import Head, train_head
from fedcord.core.contract import Env
from fedcord.core.errors import NumericalError
from fedcord.core.params import check_params, param


@dataclass(frozen=True)
class Retraining:
    """How the server re-trains the classifier."""

    enabled: bool = param(True, "whether the averaged classifier is replaced")
    vectors: int = param(50, "meta features per class (code: L)", at_least=1)
    matching_steps: int = param(100, "SGD steps on the meta features per round", at_least=0)
    matching_lr: float = param(0.1, "learning rate of these steps", above=0)
    epochs: int = param(100, "passes over the meta features to train the classifier", at_least=1)
    lr: float = param(0.01, "learning rate of the classifier", above=0)
    batch_size: int = param(50, "meta features per step of the classifier", at_least=1)

    def __post_init__(self) -> None:
        check_params(self)

    def fit_vectors(
        self, vectors: Tensor, weights: Tensor, biases: Tensor, owned: Tensor, head: Head
    ) -> Tensor:
        """Meta features [C, L, D] moved towards the clients' classifier gradients.

        Args:
            vectors: [C, L, D].
            weights: [C, C, D] mean gradients by the classifier's weight.
            biases: [C, C] likewise by its bias.
            owned: [C] bool; other classes keep their vectors.
            head: the classifier clients used.
        """
        classes = owned.nonzero()[:, 0]
        if len(classes) == 0:
            return vectors.clone()
        moving = vectors[classes].clone().requires_grad_()
        for _ in range(self.matching_steps):
            own_weights, own_biases = classifier_gradients(moving, classes, head)
            loss = row_distance(own_weights, weights[classes]).sum()
            loss = loss + row_distance(own_biases, biases[classes]).sum()
            (gradient,) = torch.autograd.grad(loss, moving)
            with torch.no_grad():
                moving -= self.matching_lr * gradient
        fitted = vectors.clone()
        fitted[classes] = moving.detach()
        if not bool(torch.isfinite(fitted).all()):
            raise NumericalError(
                f"the meta features are not finite; lower retraining.matching_lr "
                f"(now {self.matching_lr:g})."
            )
        return fitted

    def train(self, vectors: Tensor, env: Env) -> Head:
        """A fresh classifier trained by SGD on cross-entropy of all meta features [C, L, D]."""
        classes, per_class, dim = vectors.shape
        inputs = vectors.reshape(-1, dim)
        labels = torch.arange(classes).repeat_interleave(per_class)
        head = Head(*linear_start(classes, dim, env.generator("retraining-start")))
        order = env.generator("retraining-order")
        train_head(head, inputs, labels, self.epochs, self.lr, self.batch_size, order)
        return head


def classifier_gradients(vectors: Tensor, classes: Tensor, head: Head) -> tuple[Tensor, Tensor]:
    """Gradients of the mean cross-entropy of vectors [N, L, D] by weight [N, C, D], bias [N, C]."""
    labels = classes[:, None].expand(vectors.shape[:2])
    residual = head.residuals(vectors, labels)  # [N, L, C]
    return residual.mT @ vectors / vectors.shape[1], residual.mean(1)


def row_distance(found: Tensor, wanted: Tensor) -> Tensor:
    """1 − a·b / (|a| |b| + 1e-6) of the last dimension."""
    lengths = torch.linalg.vector_norm(found, dim=-1) * torch.linalg.vector_norm(wanted, dim=-1)
    cosine: Tensor = (found * wanted).sum(-1) / (lengths + SMOOTHING)
    return 1 - cosine
