"""Settings of a one-shot client's own training: batches, views, optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from fedcord.algorithms.kit.annealing import annealing
from fedcord.algorithms.oneshot.released_inputs import image_problem
from fedcord.algorithms.oneshot.views import VIEWS, chosen_view, view_problem
from fedcord.core.contract import Review
from fedcord.core.params import check_params, param
from fedcord.core.task import Task


@dataclass(frozen=True)
class LocalTraining:
    """Settings of a client's own training."""

    epochs: int = param(50, "passes over the client's data in all (paper: R·E)", at_least=1)
    batch_size: int = param(64, "examples per step, before they are doubled by views", above=0)
    lr: float = param(0.05, "learning rate", above=0, space=(0.005, 0.5, "log"))
    schedule: str = param(
        "constant",
        "learning rate over all steps; cosine falls to zero",
        choices=("constant", "cosine"),
        unwritten=True,
    )
    momentum: float = param(0.9, "SGD momentum, of weights and of log σ²", at_least=0, below=1)
    clip: float = param(1.0, "largest norm of a step's gradient", above=0)
    views: str = param("auto", "random views of each example; auto: by the data", choices=VIEWS)
    drop_last: bool = param(False, "leave out an epoch's last, smaller batch (released code)")
    normalization: str = param(
        "once", "of training images; twice as the released code does", choices=("once", "twice")
    )
    joint_clip: bool = param(False, "clip weights and log σ² by their joint norm (released code)")
    reset_optimizer_each_chunk: bool = param(
        False, "forget momentum, of log σ² too, at every checkpoint (released code)"
    )

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """Whether views and normalisation are those of this kind of data."""
        found = []
        view = chosen_view(self.views, task)
        if view != "none" and view not in task.augmentations:
            found.append(view_problem(view, task))
        if self.normalization == "twice":
            problem = image_problem("local.normalization = 'twice'", task)
            found += [problem] if problem is not None else []
        return Review(tuple(found))

    def batches(self, num_examples: int, generator: Generator) -> Iterator[Tensor]:
        """One shuffled epoch's batches of example numbers."""
        if num_examples == 0:
            return
        order = torch.randperm(num_examples, generator=generator)
        for batch in order.split(self.batch_size):
            is_short = len(batch) < self.batch_size
            if not (self.drop_last and is_short and num_examples > self.batch_size):
                yield batch

    def rate(self, progress: float) -> float:
        """The learning rate when this share of all training is done."""
        return self.lr * annealing(self.schedule, progress)

    def optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.SGD:
        """One update rule for encoder and prototypes."""
        return torch.optim.SGD(parameters, lr=self.lr, momentum=self.momentum, fused=True)
