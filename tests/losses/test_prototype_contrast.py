"""Self-contrast of prototypes at its closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from fedcord.losses.prototype_contrast import prototype_self_contrast


@pytest.mark.parametrize("classes", [2, 10])
def test_invariant_6_equal_prototypes_give_log_c(classes: int) -> None:
    assert float(prototype_self_contrast(torch.ones(classes, 7))) == pytest.approx(
        math.log(classes), rel=1e-6
    )


def test_invariant_6_is_above_zero_for_prototypes_of_any_scale() -> None:
    prototypes = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for scale in (0.01, 0.3, 1.0):
        assert float(prototype_self_contrast(scale * prototypes)) > 0


def test_sleeps_at_the_usual_start_and_wakes_when_prototypes_shrink() -> None:
    prototypes = torch.randn(10, 512, generator=torch.Generator().manual_seed(0))
    asleep = prototypes.clone().requires_grad_()
    prototype_self_contrast(asleep).backward()
    assert asleep.grad is not None
    assert float(asleep.grad.abs().max()) < 1e-6
    awake = (prototypes / 22.6).requires_grad_()
    prototype_self_contrast(awake).backward()
    assert awake.grad is not None
    assert float(awake.grad.abs().max()) > 1e-3


def test_agrees_with_a_loop() -> None:
    prototypes = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    total = 0.0
    for c in range(4):
        scores = [float(prototypes[c] @ prototypes[k]) / 2 for k in range(4)]
        total += math.log(sum(map(math.exp, scores))) - scores[c]
    assert float(prototype_self_contrast(prototypes, 2.0)) == pytest.approx(total / 4, rel=1e-9)
