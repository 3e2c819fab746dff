"""What sums tell: by hand where a hand can, and exactly where they must."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.analytic.privacy import add_noise
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats
from fedcord.audit.rates import attack_rates, gaussian_limit
from fedcord.audit.sums import Reconstruction, leverage_scores


def summed(rows: Tensor, labels: Tensor, num_classes: int = 3) -> SufficientStats:
    total = StatsAccumulator(rows.shape[1], num_classes, tag=1)
    total.add(rows, labels)
    return total.stats()


def samples(count: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(count, width, generator=draw, dtype=torch.float64), dim=1)
    return rows, torch.arange(count) % 3


def test_leverage_by_hand() -> None:
    """G = diag(1 + 1, 4, 0): x'G⁻¹x in its span, and beyond every bound outside."""
    rows = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 2, 0]], dtype=torch.float64)
    stats = summed(rows, torch.tensor([0, 1, 2]))
    asked = torch.tensor([[1.0, 0, 0], [0, 2, 0], [1, 1, 0], [0, 0, 1e-3]], dtype=torch.float64)
    found = leverage_scores(stats, asked)
    torch.testing.assert_close(
        found[:3], -torch.tensor([0.5, 1.0, 0.75], dtype=torch.float64), rtol=1e-9, atol=0
    )
    assert found[3] < -1e5
    with_ridge = leverage_scores(stats, asked, ridge=2.0)
    torch.testing.assert_close(
        with_ridge, -torch.tensor([1 / 4, 4 / 6, 1 / 4 + 1 / 6, 1e-6 / 2], dtype=torch.float64)
    )


def test_fewer_samples_than_features_are_certain_and_more_are_not() -> None:
    for members, certain in ((15, True), (200, False)):
        rows, labels = samples(2 * members, 20)
        stats = summed(rows[:members], labels[:members])
        is_member = (torch.arange(2 * members) < members).numpy()
        auc = attack_rates(leverage_scores(stats, rows).numpy(), is_member).auc
        assert (auc == 1.0) == certain
        assert auc > 0.55


def test_a_member_has_lowered_its_own_leverage() -> None:
    rows, labels = samples(50, 10)
    without = -leverage_scores(summed(rows[1:], labels[1:]), rows[:1])
    having = -leverage_scores(summed(rows, labels), rows[:1])
    torch.testing.assert_close(having, without / (1 + without), rtol=1e-8, atol=0)


def test_a_list_of_candidates_is_solved_for_although_samples_outnumber_features() -> None:
    rows, labels = samples(160, 20)
    chosen = torch.zeros(160, dtype=torch.bool)
    chosen[torch.randperm(160, generator=torch.Generator().manual_seed(1))[:80]] = True
    stats = summed(rows[chosen], labels[chosen])
    found = Reconstruction(rows, labels).scores(stats)
    torch.testing.assert_close(found, chosen.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("noise", "low", "high"), [(0.05, 0.9, 1.0), (10.0, 0.35, 0.65)])
def test_noise_hides_whom_it_should(noise: float, low: float, high: float) -> None:
    rows, labels = samples(160, 20)
    is_member = torch.arange(160) < 80
    stats = summed(rows[:80], labels[:80])
    noisy = add_noise(stats, noise, torch.Generator().manual_seed(2))
    score = Reconstruction(rows, labels, noise).scores(noisy)
    found = attack_rates(score.numpy(), is_member.numpy())
    assert low <= found.auc <= high
    # of length 1, a sample moves the sums by √2
    assert found.low <= gaussian_limit(noise / 2**0.5).auc
    blind = Reconstruction(rows, labels).scores(noisy)  # as if there were no noise
    assert float((score - 0.5).abs().mean()) < float((blind - 0.5).abs().mean())
