"""Hard generated inputs and the weights of the clients' ensemble improve each other in turn.

Reference: Dai et al., "Enhancing One-Shot Federated Learning Through Data and Ensemble
Co-Boosting", ICLR 2024.

Travels: down the first model; up the trained model. Stays: nothing.

| paper | here |
|---|---|
| A_w(x) = Σ w_k f_k(x), in the authors' code over Σ w_k | `weighted_scores` |
| L_H, cross-entropy weighed by difficulty 1 − p_y | `hard_loss` |
| β L_A, minus the divergence of student and ensemble | `adversarial_weight`, `divergence` |
| x + δ, diverse hard samples | `diversified`, `perturbation` = ε in units of stored pixels |
| w − μ sign(∇_w CE) | `reweighted`, `weight_step` = μ, times `weight_decay`^epoch |

Each epoch: one batch is generated (hard for the ensemble, against the student) and pooled; w takes
one signed step per pool batch; the student learns from the pool with every input moved by ε along
the sign of the gradient of a random combination of the ensemble's probabilities.

Deviations: small defaults (the authors' script: 200 epochs of 30 generator steps, batch 128). As in
their code, w itself is clamped to [0, 1] and the ensemble divides by Σ w, also where w takes its
step, so that no step can sharpen the teacher by raising all weights; steps shrink by `weight_decay`
per epoch, and w is not changed in the first epoch. If all weights reach 0 (rounding alone does
that, where all members agree) they start again from 1/K. For vectors
ε is in units of prepared inputs. The last student is taken, not the best on test data.

Limits: `weight_step` = 0 keeps the uniform ensemble; `perturbation` = 0 distils on the pool itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.distillation import Distillation, Student
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    fused_predictor,
    upload_weights,
)
from fedcord.algorithms.oneshot.baselines.pool import Pool
from fedcord.algorithms.oneshot.baselines.synthesis import Synthesis, Synthesizer
from fedcord.algorithms.oneshot.baselines.teacher import Teacher
from fedcord.algorithms.oneshot.baselines.teaching_losses import divergence, hard_loss
from fedcord.core.contract import Env, Predictor, ServerState
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, prefixed

WEIGHTS = "ensemble.weights"
ADVERSARIAL_TEMPERATURE = 3.0
DIVERSE_TEMPERATURE = 4.0
"""Softness of scores in L_A and in the search for δ, as in the authors' code."""


@dataclass(frozen=True)
class CoBoosting(SendsOnce):
    """Generated data and ensemble boost each other."""

    epochs: int = param(30, "alternations of data, ensemble and student", at_least=1)
    hardness: float = param(1.0, "exponent of the difficulty 1 − p_y", at_least=0)
    adversarial_weight: float = param(1.0, "against the student (paper: β)", at_least=0)
    perturbation: float = param(8 / 255, "size of δ (paper: ε)", at_least=0)
    weight_step: float = param(0.01, "step of the ensemble's weights (paper: μ)", at_least=0)
    weight_decay: float = param(0.99, "factor of that step per epoch", above=0, at_most=1)
    synthesis: Synthesis = param(Synthesis(), "how inputs are generated")
    distillation: Distillation = param(Distillation(temperature=4.0), "how the student learns")
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The student, and the last weights of the ensemble [K]."""
        models = {client: upload.model for client, upload in uploads.items()}
        teacher = Teacher(models, env)
        student = Student(self.distillation, models, upload_weights(uploads, "size"), env)
        maker = Synthesizer(self.synthesis, env.task, env.generator("synthesis"))
        pool = Pool(self.distillation.batch_size, env.generator("pool"))
        directions = env.generator("directions")
        size = teacher.num_members
        weights = torch.full((size,), 1 / size, device=env.task.device)
        for epoch in range(self.epochs):
            pool.add(*maker.batch(partial(self._generator_loss, teacher, student, weights)))
            if epoch > 0 and self.weight_step > 0:
                step = self.weight_step * self.weight_decay**epoch
                for generated, labels in pool.batches():
                    with torch.no_grad():
                        members = teacher.member_scores(maker.to_network(generated))
                    weights = reweighted(weights, members, labels, step)
            for generated, _ in pool.batches():
                scores_of = partial(_scores_of_generated, teacher, weights, maker)
                moved = diversified(generated, scores_of, self.perturbation, directions)
                with torch.no_grad():
                    inputs, goal = maker.to_network(moved), scores_of(moved)
                student.learn(inputs, goal, epoch / self.epochs)
        return {**prefixed(FUSED, student.trained()), WEIGHTS: weights.cpu()}

    def _generator_loss(
        self, teacher: Teacher, student: Student, weights: Tensor, inputs: Tensor, labels: Tensor
    ) -> Tensor:
        """L_H + β L_A of generated inputs [B, ...] with wanted labels [B]."""
        scores = weighted_scores(teacher.member_scores(inputs), weights)
        loss = hard_loss(scores, labels, self.hardness)
        if self.adversarial_weight > 0:
            apart = divergence(scores, student.scores(inputs), ADVERSARIAL_TEMPERATURE).mean()
            loss = loss - self.adversarial_weight * apart
        return loss

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the student."""
        return fused_predictor(shared, env)


def _scores_of_generated(
    teacher: Teacher, weights: Tensor, maker: Synthesizer, generated: Tensor
) -> Tensor:
    return weighted_scores(teacher.member_scores(maker.to_network(generated)), weights)


def weighted_scores(members: Tensor, weights: Tensor) -> Tensor:
    """A_w(x) = Σ w_k f_k(x) / Σ w_k [B, C]; only the ratios of the weights matter.

    Args:
        members: scores [K, B, C].
        weights: w [K], not all zero.
    """
    return torch.einsum("k,kbc->bc", weights, members) / weights.sum()


def reweighted(weights: Tensor, members: Tensor, labels: Tensor, step: float) -> Tensor:
    """One signed step of w [K] down the ensemble's cross-entropy, kept within [0, 1].

    Args:
        weights: w [K].
        members: scores [K, B, C].
        labels: [B].
        step: μ.
    """
    moving = weights.clone().requires_grad_()
    loss = F.cross_entropy(weighted_scores(members, moving), labels)
    (gradient,) = torch.autograd.grad(loss, moving)
    moved = (weights - step * gradient.sign()).clamp(0, 1)
    return moved if bool(moved.any()) else torch.full_like(weights, 1 / len(weights))


def diversified(
    generated: Tensor,
    scores_of: Callable[[Tensor], Tensor],
    perturbation: float,
    generator: Generator,
) -> Tensor:
    """Inputs [B, ...] moved by ε along the sign of ∇ Σ u·softmax(A(x)/4), u uniform in [−1, 1].

    Args:
        generated: inputs as generated.
        scores_of: generated inputs to the ensemble's scores [B, C].
        perturbation: ε.
        generator: source of u.
    """
    if perturbation == 0:
        return generated
    moving = generated.clone().requires_grad_()
    chances = (scores_of(moving) / DIVERSE_TEMPERATURE).softmax(dim=1)
    u = 2 * torch.rand(chances.shape, generator=generator).to(chances.device) - 1
    (gradient,) = torch.autograd.grad((u * chances).sum(), moving)
    return generated + perturbation * gradient.sign()
