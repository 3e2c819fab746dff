"""The head: what clients add up over joint features, and the ridge regression that follows.

With noise for privacy, joint features are shortened to `privacy.clip` wherever the head sees them,
so that prediction and personal heads agree with what was summed. Blocks of unit length and the
constant make vectors of length √2, which all shrink alike: nothing is lost but scale. Where blocks
are as they come (`joint.scaling=none`), only the longer ones are shortened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.algorithms.accord.joint_features import JointFeatures, chosen_clients
from fedcord.algorithms.accord.personal_head import COUNT, GRAM, personal_head
from fedcord.algorithms.analytic.afl import CLASS_WEIGHT
from fedcord.algorithms.analytic.closed_form import (
    RIDGE,
    SEEN,
    WEIGHT,
    Solved,
    aligned,
    linear_predictor,
    solve_private,
    solve_stats,
)
from fedcord.algorithms.analytic.privacy import Privacy, add_noise, noisy_system
from fedcord.algorithms.analytic.stats import StatsAccumulator
from fedcord.algorithms.analytic.sum_messages import (
    STATS,
    add_messages,
    stats_update,
    summed_stats,
)
from fedcord.algorithms.analytic.wire import wire_spec
from fedcord.core.contract import ClientResult, Env, Predictor, ServerState, Updates
from fedcord.core.examples import Examples
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.symmetric import diagonal_places, pack

HEAD = (WEIGHT, SEEN, RIDGE)
"""What of the result belongs to the common head."""


@dataclass(frozen=True)
class Head:
    """Sums of joint features and what is solved from them.

    Attributes:
        joint: what the head sees.
        ridge: λ, or `gcv`.
        wire: how sums travel.
        privacy: noise that hides single samples in the sums.
        personal: whether the result holds what personal heads need.
    """

    joint: JointFeatures
    ridge: float | str
    wire: str
    privacy: Privacy
    personal: bool

    def expected_sums(self, shared: Tensors, env: Env) -> Mapping[str, TensorSpec]:
        """What every client sends."""
        width = self.joint.num_features(chosen_clients(shared), env.task)
        spec = wire_spec(self.wire, width, env.task.num_classes)
        return {f"{STATS}.{name}": part for name, part in spec.items()}

    def client_sums(self, shared: Tensors, data: Examples, env: Env) -> ClientResult:
        """A client's message."""
        width = self.joint.num_features(chosen_clients(shared), env.task)
        tag, weight = self.joint.tag(shared, env), shared.get(CLASS_WEIGHT)
        total = StatsAccumulator(width, env.task.num_classes, tag, weight)
        for rows, labels in self.batches(data, shared, env):
            total.add(rows, labels)
        noise = self.privacy.client_noise, env.generator("privacy")
        return ClientResult(stats_update(add_noise(total.stats(), *noise), self.wire))

    def solved(
        self, state: ServerState, updates: Updates, env: Env
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Everybody's sums, and the result."""
        sums = add_messages({}, updates, self.joint.tag(state.shared, env), env)
        if not self.privacy.is_on:
            return sums, self.result_of(sums)
        exact, num_clients = summed_stats(sums, self.wire), len(sums["ledger.client"])
        noise = env.generator("privacy")
        solved, noisy = solve_private(exact, self.ridge, self.privacy, num_clients, noise)
        if not self.personal:
            return sums, solved.tensors()
        # personal heads are made from what is released, never from the exact sums
        system = noisy_system(noisy.gram_matrix(), solved.report.ridge)
        return sums, _with_system(solved, pack(system), exact.count)

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """The head, and what personal heads need, from sums without noise of the server's."""
        stats = summed_stats(sums, self.wire)
        solved = solve_stats(stats, self.ridge, self.wire)
        if not self.personal:
            return solved.tensors()
        gram = stats.gram.clone()
        gram[diagonal_places(stats.num_features)] += solved.report.ridge
        return _with_system(solved, gram, stats.count)

    def batches(self, data: Examples, shared: Tensors, env: Env) -> Iterator[tuple[Tensor, Tensor]]:
        """A client's samples as (what the head multiplies [B, D], labels [B])."""
        for rows, labels in self.joint.batches(data, shared, env):
            yield self.privacy.clipped(rows), labels

    def personalized(self, shared: Tensors, data: Examples, env: Env) -> Tensor:
        """A client's own head [D, C]."""
        rows = torch.cat([rows for rows, _ in self.batches(data, shared, env)])
        return personal_head(rows, data.labels, shared)

    def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
        """Of the client's own head where it has one, else of the common one."""
        weight = aligned(memory if WEIGHT in memory else shared, WEIGHT)
        joint, clipped = self.joint.mapping(shared, env), self.privacy.clipped
        return linear_predictor(lambda inputs: clipped(joint(inputs)), weight, shared[SEEN])


def _with_system(solved: Solved, gram: Tensor, count: int) -> dict[str, Tensor]:
    """A result that personal heads can be made from; `gram` [D(D+1)/2] holds the ridge."""
    return {**solved.tensors(), GRAM: gram, COUNT: torch.tensor(count)}
