"""Two accidents of FAFI's released code with the normalisation of images.

Its training images of SVHN and CIFAR-100 are normalised twice, and its test images of CIFAR-10 and
Tiny-ImageNet not at all. Both are kept as switches, for those who want to know what they change.

A task prepares stored bytes by x ↦ a·x + b for each channel. Asked for black and for white, it
tells b and a + b, and with them both accidents can be made from what it prepared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.core.errors import ConfigError
from fedcord.core.task import Task


def normalised_again(inputs: Tensor, task: Task) -> Tensor:
    """Prepared inputs [B, ...] normalised once more."""
    black, white = _ends(task)
    return inputs * (white - black) + black


def not_normalised(inputs: Tensor, task: Task) -> Tensor:
    """Prepared inputs [B, ...] as they were before, in [0, 1]."""
    black, white = _ends(task)
    return (inputs - black) / (white - black)


def image_problem(setting: str, task: Task) -> str | None:
    """Why a setting of this module does not fit the task, or None."""
    if len(task.input_shape) == 3:
        return None
    return f"{setting} is about images; leave it at its default for this data."


def _ends(task: Task) -> tuple[Tensor, Tensor]:
    """What black and white images [1, C, H, W] become."""
    if len(task.input_shape) != 3:
        raise ConfigError("normalisation is that of images; this data has none.")
    black = torch.zeros(1, *task.input_shape, dtype=torch.uint8)
    ends = task.prepare(black), task.prepare(torch.full_like(black, 255))
    return ends[0].to(task.device), ends[1].to(task.device)
