"""The mean of the clients' models learns from their ensemble on unlabelled inputs.

Reference: Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning",
NeurIPS 2020 (FedDF), with one round.

Travels: down the first model; up the trained model. Stays: nothing.

| paper | here |
|---|---|
| x_{t,0} = Σ p_k x_k | the student's start, `distillation.start` = average |
| d, unlabelled data | `proxy`: generated, noise, or a file of public inputs |
| KL(σ(1/|S| Σ f(x_k, d)), σ(f(x, d))) | `divergence` to the mean scores, `weighting` = uniform |
| N, η | `steps`, `distillation.lr`, falling with a cosine |

Deviations: the paper uses public data or a generator trained elsewhere. The server of this library
has no data, and test data is never used, so by default inputs are generated from the ensemble
itself (cross-entropy and batch-norm terms, as DENSE without its boundary term). A fixed number of
steps replaces early stopping on validation data; default steps are few (paper: up to 10,000).

Limits: `steps` = 0 is `fedavg-oneshot`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.distillation import Distillation, Student
from fedcord.algorithms.oneshot.baselines.generator import noise_inputs, to_network
from fedcord.algorithms.oneshot.baselines.one_exchange import (
    FUSED,
    ONE_SHOT,
    SendsOnce,
    Uploads,
    fused_predictor,
    upload_weights,
)
from fedcord.algorithms.oneshot.baselines.synthesis import Synthesis, Synthesizer
from fedcord.algorithms.oneshot.baselines.teacher import Teacher
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import Env, Predictor, Review, ServerState
from fedcord.core.errors import ConfigError, DataError
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, prefixed


@dataclass(frozen=True)
class FedDF(SendsOnce):
    """Ensemble distillation into the averaged model."""

    steps: int = param(300, "distillation steps (paper: N)", at_least=0)
    proxy: str = param("generated", "inputs to distil on", choices=("generated", "noise", "file"))
    proxy_file: str = param("", "a .npy file of public inputs as stored, [N, ...], for proxy=file")
    proxy_size: int = param(1024, "inputs to generate or draw", at_least=2)
    statistics_weight: float = param(1.0, "batch-norm term of generated inputs", at_least=0)
    weighting: str = param("uniform", "clients' weights in the ensemble", choices=WEIGHTINGS)
    synthesis: Synthesis = param(Synthesis(), "how inputs are generated")
    distillation: Distillation = param(
        Distillation(optimizer="adam", lr=1e-3, start="average"), "how the student learns"
    )
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)
        if (self.proxy == "file") != bool(self.proxy_file):
            raise ConfigError(
                f"proxy = '{self.proxy}' with proxy_file = '{self.proxy_file}': give a file and "
                "proxy=file, or neither."
            )

    def review(self, task: Task) -> Review:
        """What clients need, and whether there are inputs to distil on."""
        found = self.local.review(task)
        if self.steps == 0:
            return found
        if self.proxy != "file":
            return found + self.synthesis.review(task)
        try:
            read_inputs(self.proxy_file, task)
        except DataError as error:
            return found + Review(errors=(str(error),))
        return found

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The student."""
        models = {client: upload.model for client, upload in uploads.items()}
        student = Student(self.distillation, models, upload_weights(uploads, "size"), env)
        if self.steps == 0:
            return prefixed(FUSED, student.trained())
        teacher = Teacher(models, env)
        weights = torch.tensor(upload_weights(uploads, self.weighting)).to(env.task.device)
        inputs_of, count = self._proxy(teacher, weights, env)
        order = env.generator("proxy")
        for step in range(self.steps):
            size = (min(self.distillation.batch_size, count),)
            chosen = torch.randint(count, size, generator=order)
            with torch.no_grad():
                inputs = inputs_of(chosen)
                goal = teacher.mean_scores(inputs, weights)
            student.learn(inputs, goal, step / self.steps)
        return prefixed(FUSED, student.trained())

    def _proxy(
        self, teacher: Teacher, weights: Tensor, env: Env
    ) -> tuple[Callable[[Tensor], Tensor], int]:
        """Row numbers to what a network reads, and how many rows there are."""
        task = env.task
        if self.proxy == "file":
            stored = read_inputs(self.proxy_file, task)
            return lambda rows: task.prepare(stored[rows]).to(task.device), len(stored)
        if self.proxy == "noise":
            made = noise_inputs(task, self.proxy_size, env.generator("noise"))
        else:
            maker = Synthesizer(self.synthesis, task, env.generator("synthesis"))
            needed = -(-self.proxy_size // self.synthesis.batch_size)
            loss = partial(self._inversion_loss, teacher, weights)
            made = torch.cat([maker.batch(loss)[0] for _ in range(needed)])[: self.proxy_size]
        prepare = to_network(task)
        return lambda rows: prepare(made[rows]), len(made)

    def _inversion_loss(
        self, teacher: Teacher, weights: Tensor, inputs: Tensor, labels: Tensor
    ) -> Tensor:
        members, gap = teacher.scores_and_statistics_gap(inputs, self.statistics_weight > 0)
        scores = torch.einsum("k,kbc->bc", weights, members)
        return F.cross_entropy(scores, labels) + self.statistics_weight * gap

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the student."""
        return fused_predictor(shared, env)


def read_inputs(file: str, task: Task) -> Tensor:
    """Public inputs [N, ...] as stored, from a NumPy file; pickled objects are refused."""
    path = Path(file)
    if not path.is_file():
        raise DataError(f"proxy_file '{file}' does not exist; save inputs by numpy.save.")
    try:
        stored = torch.from_numpy(np.load(path, allow_pickle=False))
    except (ValueError, TypeError, OSError) as error:
        raise DataError(
            f"proxy_file '{file}' is not a NumPy array of numbers ({error}); save inputs by "
            "numpy.save."
        ) from error
    if tuple(stored.shape[1:]) != tuple(task.input_shape) or len(stored) < 2:
        raise DataError(
            f"proxy_file '{file}' holds {list(stored.shape)}, expected at least 2 inputs of shape "
            f"{list(task.input_shape)}."
        )
    return stored
