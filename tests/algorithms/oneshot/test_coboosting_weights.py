"""How Co-Boosting weighs its teachers and moves its inputs, against sums written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.oneshot.baselines.coboosting import (
    CoBoosting,
    diversified,
    reweighted,
    weighted_scores,
)
from fedcord.algorithms.oneshot.baselines.distillation import Distillation, Student
from fedcord.algorithms.oneshot.baselines.teacher import Teacher
from tests.algorithms.oneshot.teaching import drawn, softmax, some_models
from tests.federation import env


def ensemble_by_hand(w: list[float], members: Tensor, b: int) -> list[float]:
    """Σ w_k f_k / Σ w_k of one example, class by class."""
    count, _, classes = members.shape
    mixed = [sum(w[k] * float(members[k, b, c]) for k in range(count)) for c in range(classes)]
    return [value / sum(w) for value in mixed]


def ensemble_loss_by_hand(w: list[float], members: Tensor, labels: Tensor) -> float:
    chances = [softmax(ensemble_by_hand(w, members, b)) for b in range(len(labels))]
    return -sum(math.log(p[y]) for p, y in zip(chances, labels.tolist(), strict=True)) / len(labels)


def test_coboosting_weights_take_one_signed_step_within_bounds() -> None:
    members, labels = 2 * drawn(3, 6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    weights = torch.tensor([0.005, 0.5, 0.999])
    scores = weighted_scores(members, weights)
    for b in range(6):
        wanted = ensemble_by_hand(weights.tolist(), members, b)
        assert scores[b].tolist() == pytest.approx(wanted, abs=1e-5)
    found = reweighted(weights, members, labels, 0.01)
    for k in range(3):
        up, down = weights.tolist(), weights.tolist()
        up[k] += 1e-4
        down[k] -= 1e-4
        rises = ensemble_loss_by_hand(up, members, labels) > ensemble_loss_by_hand(
            down, members, labels
        )
        moved = min(max(float(weights[k]) - (0.01 if rises else -0.01), 0.0), 1.0)
        assert float(found[k]) == pytest.approx(moved, abs=1e-6)


def test_coboosting_ensemble_knows_ratios_of_weights_alone() -> None:
    """Multiplying all weights by a constant changes neither scores, nor losses, nor directions."""
    here, x, y = env(), drawn(4, 8), torch.tensor([0, 1, 2, 0])
    models = some_models(here)
    teacher, student = Teacher(models, here), Student(Distillation(), models, [1 / 3] * 3, here)
    members, w = teacher.member_scores(x).detach(), torch.tensor([0.1, 0.2, 0.05])
    loss = CoBoosting()._generator_loss(teacher, student, w, x, y)
    step = reweighted(w, members, y, 0.01) - w
    for factor in (0.3, 4.0):
        scaled = factor * w
        same = weighted_scores(members, scaled)
        torch.testing.assert_close(same, weighted_scores(members, w))
        torch.testing.assert_close(
            CoBoosting()._generator_loss(teacher, student, scaled, x, y), loss
        )
        torch.testing.assert_close(reweighted(scaled, members, y, 0.01) - scaled, step)


def test_coboosting_weights_do_not_sharpen_a_teacher_that_is_right() -> None:
    """200 steps on members that are mostly right; the sum Σ w f would take w to (1, 1, 1, 1, 1)."""
    labels = torch.arange(30) % 5
    members = drawn(5, 30, 5, seed=3) + 2 * nn.functional.one_hot(labels, 5)
    weights = torch.full((5,), 0.2)
    for _ in range(200):
        weights = reweighted(weights, members, labels, 0.01)
    assert 0.5 < float(weights.sum()) < 1.5
    before = ensemble_loss_by_hand([0.2] * 5, members, labels)
    assert ensemble_loss_by_hand(weights.tolist(), members, labels) < before


def test_coboosting_weights_are_never_all_zero() -> None:
    """One member's gradient is nothing but rounding, whose sign may take its weight to 0."""
    for seed in range(60):
        found = reweighted(
            torch.tensor([0.3]), drawn(1, 6, 4, seed=seed), torch.tensor([0, 1, 2, 3, 0, 1]), 0.5
        )
        assert 0 < float(found) <= 1


def test_coboosting_moves_inputs_by_epsilon_along_the_gradient() -> None:
    x, weight = drawn(4, 6), drawn(3, 6, seed=1)
    found = diversified(x, lambda v: v @ weight.T, 0.25, torch.Generator().manual_seed(3))
    u = 2 * torch.rand(4, 3, generator=torch.Generator().manual_seed(3)) - 1
    for i in range(4):
        p = softmax([float(s) / 4 for s in x[i] @ weight.T])
        for d in range(6):
            slope = 0.0
            for c in range(3):
                mean = sum(p[k] * float(weight[k, d]) for k in range(3))
                slope += float(u[i, c]) * p[c] * (float(weight[c, d]) - mean) / 4
            assert float(found[i, d] - x[i, d]) == pytest.approx(
                math.copysign(0.25, slope), abs=1e-5
            )
    assert diversified(x, lambda v: v @ weight.T, 0.0, torch.Generator()) is x
