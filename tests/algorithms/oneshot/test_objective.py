"""The base loss term by term, and the two banks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import SupConLoss  # type: ignore[import-untyped]
from torch import Tensor

from fedcord.algorithms.oneshot.objective import Objective
from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.params import build
from fedcord.losses.supcon import bank_contrast, supervised_contrast
from tests.federation import env as make_env


def batch(seed: int = 0, rows: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Unit features [N, 6] of two views, prototypes [3, 6] and labels [N]."""
    generator = torch.Generator().manual_seed(seed)
    features = F.normalize(torch.randn(rows, 6, generator=generator), dim=1)
    labels = torch.randint(3, (rows // 2,), generator=generator).repeat(2)
    return features, torch.randn(3, 6, generator=generator), labels


def slow_loss(z: Tensor, p: Tensor, y: Tensor, tau_pf: float, tau_pp: float) -> Tensor:
    """The four terms of FAFI with the library's SupCon and cross-entropies by hand."""

    def ce(scores: Tensor, labels: Tensor) -> Tensor:
        return -torch.log_softmax(scores, 1)[torch.arange(len(labels)), labels].mean()

    contrast: Tensor = SupConLoss(temperature=0.07)(z, y)
    classify = ce(z @ p.T, y) + ce(z @ p.T / tau_pf, y)
    return classify + contrast + ce(p @ p.T / tau_pp, torch.arange(len(p)))


@pytest.mark.parametrize(("tau_pf", "tau_pp"), [(1.0, 1.0), (0.5, 2.0)])
def test_all_four_terms(tau_pf: float, tau_pp: float) -> None:
    z, p, y = batch()
    objective = Objective(feature_temperature=tau_pf, prototype_temperature=tau_pp)
    torch.testing.assert_close(objective.loss(z, p, y), slow_loss(z, p, y, tau_pf, tau_pp))


def test_cross_entropy_alone_is_the_first_term_and_what_accord_ce_trains_by() -> None:
    z, p, y = batch()
    accord = build(algorithm_class("accord-ce"), ALGORITHMS["accord-ce"].preset)
    torch.testing.assert_close(accord.objective.loss(z, p, y), F.cross_entropy(z @ p.T, y))


def test_invariant_3_at_one_the_feature_term_is_the_classification_term() -> None:
    z, p, y = batch()
    p.requires_grad_()
    nearly_one = Objective(contrastive="none", feature_temperature=1 + 1e-7)
    values = [Objective(contrastive="none").loss(z, p, y), nearly_one.loss(z, p, y)]
    torch.testing.assert_close(values[0], values[1])
    gradients = [torch.autograd.grad(value, p)[0] for value in values]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_invariant_4_scaling_the_encoder_changes_nothing() -> None:
    z, p, y = batch()
    raw = z * torch.linspace(0.5, 2, len(z))[:, None]
    once = Objective().loss(F.normalize(raw, dim=1), p, y)
    twice = Objective().loss(F.normalize(8 * raw, dim=1), p, y)
    torch.testing.assert_close(once, twice)


def test_invariant_7_swapping_the_views_changes_nothing() -> None:
    z, p, y = batch()
    swapped = torch.cat([z[4:], z[:4]])
    for kind in ("supcon", "simclr"):
        objective = Objective(contrastive=kind)
        torch.testing.assert_close(objective.loss(swapped, p, y), objective.loss(z, p, y))


def test_simclr_pairs_the_two_views_of_an_example() -> None:
    z, p, y = batch()
    expected = supervised_contrast(z, torch.arange(4).repeat(2), 0.07)
    found = Objective(contrastive="simclr").loss(z, p, y)
    without = Objective(contrastive="none").loss(z, p, y)
    torch.testing.assert_close(found - without, expected)


def test_l_base_keeps_above_the_floor_of_supcon() -> None:
    z = F.normalize(torch.ones(64, 6), dim=1)
    p = 100 * torch.eye(3, 6)
    p[0] = 100
    value = Objective().loss(z, p, torch.zeros(64, dtype=torch.int64))
    assert float(value) > 4.1  # log 63, with everything else perfect


def test_memory_bank_is_a_queue_of_detached_features() -> None:
    objective = Objective(memory_bank=10)
    memory = None
    seen = []
    for seed in range(3):
        z, _, y = batch(seed, rows=4)
        memory = objective.remember(memory, z.requires_grad_(), y)
        seen.append((z.detach(), y))
    assert memory is not None
    assert not memory[0].requires_grad
    torch.testing.assert_close(memory[0], torch.cat([z for z, _ in seen])[-10:])
    assert torch.equal(memory[1], torch.cat([y for _, y in seen])[-10:])
    assert Objective().remember(None, *seen[0]) is None


def test_memory_bank_joins_the_contrast() -> None:
    z, p, y = batch()
    bank = batch(5)[0], batch(5)[2]
    objective = Objective(memory_bank=8)
    gap = objective.loss(z, p, y, memory=bank) - objective.loss(z, p, y)
    expected = supervised_contrast(z, y, 0.07, bank=bank) - supervised_contrast(z, y, 0.07)
    torch.testing.assert_close(gap, expected)


def test_feature_bank_is_the_same_for_all_and_clusters_by_class() -> None:
    objective, env = Objective(feature_bank=5), make_env()
    bank = objective.outside_bank(3, 16, env.at(1))
    again = objective.outside_bank(3, 16, make_env(rounds=9).at(0))
    assert bank is not None
    assert again is not None
    assert torch.equal(bank[0], again[0])
    assert bank[1].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    cosines = bank[0] @ bank[0].T
    same = bank[1][:, None] == bank[1]
    assert float(cosines[same].mean()) > float(cosines[~same].mean()) + 0.5


def test_feature_bank_adds_its_contrast() -> None:
    z, p, y = batch()
    objective = Objective(feature_bank=5, bank_weight=0.5)
    bank = objective.outside_bank(3, 6, make_env())
    assert bank is not None
    gap = objective.loss(z, p, y, outside=bank) - objective.loss(z, p, y)
    torch.testing.assert_close(gap, 0.5 * bank_contrast(z, y, bank, 0.07))


def test_two_stages_take_turns() -> None:
    z, p, y = batch()
    objective = Objective(feature_bank=5, alignment_epochs=1, period=3)
    bank = objective.outside_bank(3, 6, make_env())
    assert bank is not None
    alone = bank_contrast(z, y, bank, 0.07)
    is_alone = [
        bool(torch.equal(objective.loss(z, p, y, outside=bank, epoch=e), alone)) for e in range(7)
    ]
    assert is_alone == [True, False, False, True, False, False, True]
