"""A generator makes inputs on which the clients' ensemble teaches one student; no data is needed.

Reference: Zhang et al., "DENSE: Data-Free One-Shot Federated Learning", NeurIPS 2022.

Travels: down the first model; up the trained model. Stays: nothing.

| paper | here |
|---|---|
| D(x) = 1/m Σ f_k(x) | the teacher's mean scores, `weighting` = uniform |
| L_CE + λ1 L_BN + λ2 L_div | `cross_entropy` + `statistics_weight` · gap + `boundary_weight` · … |
| ω, where D and the student decide differently | the mask in `boundary_loss` |
| T, T_G, b, η_G, η_S | `epochs`, `synthesis.{steps, batch_size, lr}`, `distillation.lr` |

Each epoch trains the generator for one batch, adds the batch to a pool, and lets the student learn
from the whole pool once.

Deviations: small defaults (the authors' example: 200 epochs of 30 steps, batch 256, rates 1e-3 and
0.005, both weights 1, temperature 20). As in their code, noise is trained with the generator,
which is drawn anew every epoch, and the batch of the best step is kept; not as there, the student
learns without augmentation, its rate falls with a cosine, and the last student is taken, not the
best on test data.

Limits: without batch normalisation L_BN is 0; `boundary_weight` = 0 is plain model inversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
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
from fedcord.algorithms.oneshot.baselines.teaching_losses import boundary_loss
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS
from fedcord.core.contract import Env, Predictor, ServerState
from fedcord.core.params import check_params, param
from fedcord.core.tensors import Tensors, prefixed


@dataclass(frozen=True)
class Dense(SendsOnce):
    """Data-free distillation of the clients' ensemble."""

    epochs: int = param(30, "alternations of generating and learning (paper: T)", at_least=1)
    statistics_weight: float = param(1.0, "batch-norm statistics (paper: λ1)", at_least=0)
    boundary_weight: float = param(1.0, "disagreement with the student (paper: λ2)", at_least=0)
    weighting: str = param("uniform", "clients' weights in the ensemble", choices=WEIGHTINGS)
    synthesis: Synthesis = param(Synthesis(), "how inputs are generated")
    distillation: Distillation = param(Distillation(), "how the student learns")
    local: LocalSGD = param(ONE_SHOT, "how clients train")

    def __post_init__(self) -> None:
        check_params(self)

    def fuse(self, state: ServerState, uploads: Uploads, env: Env) -> dict[str, Tensor]:
        """The student."""
        models = {client: upload.model for client, upload in uploads.items()}
        teacher = Teacher(models, env)
        student = Student(self.distillation, models, upload_weights(uploads, "size"), env)
        weights = torch.tensor(upload_weights(uploads, self.weighting)).to(env.task.device)
        maker = Synthesizer(self.synthesis, env.task, env.generator("synthesis"))
        pool = Pool(self.distillation.batch_size, env.generator("pool"))
        for epoch in range(self.epochs):
            generated, _ = maker.batch(partial(self.generator_loss, teacher, student, weights))
            with torch.no_grad():
                inputs = maker.to_network(generated)
                pool.add(inputs, teacher.mean_scores(inputs, weights))
            for inputs, goal in pool.batches():
                student.learn(inputs, goal, epoch / self.epochs)
        return prefixed(FUSED, student.trained())

    def generator_loss(
        self, teacher: Teacher, student: Student, weights: Tensor, inputs: Tensor, labels: Tensor
    ) -> Tensor:
        """L_CE + λ1 L_BN + λ2 L_div of generated inputs [B, ...] with wanted labels [B]."""
        members, gap = teacher.scores_and_statistics_gap(inputs, self.statistics_weight > 0)
        scores = torch.einsum("k,kbc->bc", weights, members)
        loss = F.cross_entropy(scores, labels) + self.statistics_weight * gap
        if self.boundary_weight > 0:
            loss = loss + self.boundary_weight * boundary_loss(scores, student.scores(inputs))
        return loss

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Class scores [B, C] of the student."""
        return fused_predictor(shared, env)
