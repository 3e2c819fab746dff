"""Losses between a teacher's and a student's scores, and of a teacher on generated inputs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def divergence(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """T² KL(softmax(teacher/T) ‖ softmax(student/T)) of every example [B], from scores [B, C]."""
    goal = (teacher / temperature).log_softmax(dim=1)
    own = (student / temperature).log_softmax(dim=1)
    return temperature**2 * (goal.exp() * (goal - own)).sum(dim=1)


def boundary_loss(teacher: Tensor, student: Tensor) -> Tensor:
    """Minus the mean divergence where teacher and student decide differently (DENSE)."""
    differs = (teacher.argmax(1) != student.argmax(1)).to(teacher.dtype)
    return -(divergence(teacher, student) * differs).mean()


def hard_loss(scores: Tensor, labels: Tensor, sharpness: float) -> Tensor:
    """Cross-entropy weighed by (1 − p_y)^sharpness, the difficulty of each example (Co-Boosting).

    The weight is a constant for the gradient.
    """
    loss = F.cross_entropy(scores, labels, reduction="none")
    difficulty = (1 - torch.exp(-loss.detach())).clamp(min=0) ** sharpness
    return (difficulty * loss).mean()
