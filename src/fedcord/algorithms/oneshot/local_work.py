"""What a one-shot client does with its data, step by step, and what it keeps between chunks.

Every epoch has its own random streams, addressed by its number in the whole training. So cutting
the training into more or fewer chunks draws the same numbers, and with the optimiser kept between
chunks it gives the same bits.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedcord.algorithms.kit.encoder import encoder_parameters
from fedcord.algorithms.oneshot.alignment import Alignment
from fedcord.algorithms.oneshot.conflict import Conflict
from fedcord.algorithms.oneshot.guard import MOST_SKIPPED, RUNAWAY, gave_up
from fedcord.algorithms.oneshot.local_training import LocalTraining
from fedcord.algorithms.oneshot.objective import Bank, Objective
from fedcord.algorithms.oneshot.policy import Policy, Sigma
from fedcord.algorithms.oneshot.released_inputs import normalised_again
from fedcord.algorithms.oneshot.views import rows_of
from fedcord.core.contract import Env
from fedcord.core.errors import NumericalError
from fedcord.core.examples import Examples


@dataclass
class Learner:
    """A client's model while it trains.

    Attributes:
        network: its encoder is trained; in training mode during `train`.
        prototypes: [C, D].
        counts: [C] training examples of each class.
        sigma: the policy's state.
        momentum: the optimiser's, in the order of the parameters; empty at first.
        memory: the memory bank.
    """

    network: nn.Module
    prototypes: nn.Parameter
    counts: Tensor
    sigma: Sigma
    momentum: list[Tensor] = field(default_factory=list)
    memory: Bank | None = None


@dataclass(frozen=True)
class Epoch:
    """What holds for all steps of one epoch.

    Attributes:
        number: in the whole training.
        factor: the schedule's s.
        target: where prototypes are drawn, [C, D], or None without anchors.
        outside: the feature bank, if any.
    """

    number: int
    factor: float
    target: Tensor | None
    outside: Bank | None


@dataclass
class Trace:
    """Sums over the steps of a chunk."""

    base: float = 0.0
    align: float = 0.0
    steps: int = 0
    skipped: int = 0
    in_a_row: int = 0
    effective: float = 0.0
    factor: float = 1.0
    runaway_epoch: int | None = None


@dataclass(frozen=True)
class LocalWork:
    """All parts a client needs for training."""

    local: LocalTraining
    objective: Objective
    alignment: Alignment
    policy: Policy
    conflict: Conflict

    def train(
        self, learner: Learner, examples: Examples, epochs: list[Epoch], env: Env
    ) -> dict[str, float]:
        """Train in place for the given epochs.

        Returns:
            The chunk's metrics; losses are means over its steps.
        """
        parameters = [learner.prototypes, *encoder_parameters(learner.network)]
        optimizer = self.local.optimizer(parameters)
        if learner.momentum:
            for parameter, buffer in zip(parameters, learner.momentum, strict=True):
                optimizer.state[parameter]["momentum_buffer"] = buffer.clone()
        rows = rows_of(self.local.views, examples, env.task)
        trace = Trace()
        learner.network.train()
        for epoch in epochs:
            at = dataclasses.replace(env, round=epoch.number)  # streams of the epoch, not the chunk
            draws = at.generator("epoch-views")
            batches = list(self.local.batches(len(examples), at.generator("epoch-batches")))
            for step, batch in enumerate(batches):
                progress = (epoch.number + step / len(batches)) / self.local.epochs
                optimizer.param_groups[0]["lr"] = self.local.rate(progress)
                inputs, labels = rows(batch, draws)
                if self.local.normalization == "twice":
                    inputs = normalised_again(inputs, env.task)
                self._step(learner, inputs, labels, epoch, parameters, optimizer, trace)
        learner.network.eval()
        learner.momentum = [
            cast(Tensor, optimizer.state[p].get("momentum_buffer", torch.zeros_like(p)))
            for p in parameters
        ]
        return self._metrics(learner, trace)

    def _step(
        self,
        learner: Learner,
        inputs: Tensor,
        labels: Tensor,
        epoch: Epoch,
        parameters: list[nn.Parameter],
        optimizer: torch.optim.SGD,
        trace: Trace,
    ) -> None:
        network, prototypes = cast(Any, learner.network), learner.prototypes
        features = F.normalize(network.features(inputs), dim=1, eps=1e-12)
        base = self.objective.loss(
            features, prototypes, labels, learner.memory, epoch.outside, epoch.number
        )
        base_weight, align_weight = self.policy.weights(learner.sigma, epoch.factor)
        pulls_features = self.alignment.on == "feature"
        loss, align, pull = base if base_weight == 1 else base * base_weight, None, None
        if epoch.target is not None and self.policy.is_used:
            if pulls_features:
                align = self.alignment.of_features(features, labels, epoch.target)
                loss = loss + align_weight * align
            else:
                chosen = self.alignment.chosen(labels, learner.counts)
                align, pull = self.alignment.pull(prototypes, epoch.target, chosen)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for parameter in parameters:
            if parameter.grad is None:  # not in this stage's loss; its momentum still runs on
                parameter.grad = torch.zeros_like(parameter)
        if pull is not None:
            self._add_pull(prototypes, pull, align_weight)
        values = float(base.detach()), 0.0 if align is None else float(align.detach())
        norm = nn.utils.get_total_norm([cast(Tensor, p.grad) for p in parameters])
        if not (math.isfinite(float(norm)) and all(map(math.isfinite, values))):
            self._skip(learner, epoch, trace)
            return
        self._clip_and_descend(learner, values, norm, epoch, parameters)
        optimizer.step()
        learner.memory = self.objective.remember(learner.memory, features, labels)
        self._record(learner, values, align_weight, epoch, trace)

    def _add_pull(self, prototypes: nn.Parameter, pull: Tensor, align_weight: float) -> None:
        """Join both gradients of the prototypes, after settling their conflict."""
        if align_weight > 0:
            assert prototypes.grad is not None
            own, pull = self.conflict.resolve(prototypes.grad, pull)
            prototypes.grad = own.add(pull, alpha=align_weight)

    def _clip_and_descend(
        self,
        learner: Learner,
        values: tuple[float, float],
        norm: Tensor,
        epoch: Epoch,
        parameters: list[nn.Parameter],
    ) -> None:
        """Clip the weights' gradient, and move log σ² by its own."""
        if self.policy.learns:
            gradient = self.policy.gradient(learner.sigma, *values, epoch.factor)
            own = math.hypot(*gradient)
            if self.local.joint_clip:
                norm = torch.hypot(norm, torch.full_like(norm, own))
                own = float(norm)
            shrink = min(1.0, self.local.clip / (own + 1e-6))
            learner.sigma = self.policy.descend(
                learner.sigma, (shrink * gradient[0], shrink * gradient[1]), self.local.momentum
            )
        if float(norm) > self.local.clip:
            nn.utils.clip_grads_with_norm_(parameters, self.local.clip, norm)

    def _skip(self, learner: Learner, epoch: Epoch, trace: Trace) -> None:
        trace.skipped += 1
        trace.in_a_row += 1
        if trace.in_a_row >= MOST_SKIPPED:
            raise NumericalError(
                gave_up(self.policy, epoch.number, learner.sigma.ratio, self.local.lr)
            )

    def _record(
        self,
        learner: Learner,
        values: tuple[float, float],
        align_weight: float,
        epoch: Epoch,
        trace: Trace,
    ) -> None:
        trace.base += values[0]
        trace.align += values[1]
        trace.steps += 1
        trace.in_a_row = 0
        trace.effective, trace.factor = align_weight, epoch.factor
        if trace.runaway_epoch is None and self.policy.learns and align_weight >= RUNAWAY:
            trace.runaway_epoch = epoch.number

    def _metrics(self, learner: Learner, trace: Trace) -> dict[str, float]:
        steps = max(trace.steps, 1)
        metrics = {
            "train_loss": trace.base / steps,
            "loss_base": trace.base / steps,
            "skipped_steps": float(trace.skipped),
        }
        if self.policy.is_used:
            metrics |= {
                "loss_align": trace.align / steps,
                "lambda_raw": learner.sigma.ratio,
                "lambda_effective": trace.effective,
                "schedule": trace.factor,
            }
        if self.policy.learns:
            metrics["sigma_sq_local"] = math.exp(learner.sigma.log_local)
            metrics["sigma_sq_align"] = math.exp(learner.sigma.log_align)
        if trace.runaway_epoch is not None:
            metrics["runaway_epoch"] = float(trace.runaway_epoch)
        return metrics
