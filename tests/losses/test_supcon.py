"""Supervised contrast against a library, against loops, and at its closed forms."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import SupConLoss  # type: ignore[import-untyped]
from torch import Tensor

from fedcord.losses.supcon import bank_contrast, supervised_contrast


def unit(rows: int, dim: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def by_loops(
    features: Tensor, labels: Tensor, temperature: float, bank: tuple[Tensor, Tensor] | None = None
) -> float:
    """SupCon's formula (L_out), one row and one pair at a time, in double precision."""
    z, y = features.double(), labels.tolist()
    keys, key_labels = z, list(y)
    if bank is not None:
        keys, key_labels = torch.cat([z, bank[0].double()]), y + bank[1].tolist()
    total = 0.0
    for a in range(len(z)):
        others = [b for b in range(len(keys)) if b != a]
        positives = [b for b in others if key_labels[b] == y[a]]
        if not positives:
            continue
        denominator = math.log(sum(math.exp(float(z[a] @ keys[b]) / temperature) for b in others))
        total += sum(denominator - float(z[a] @ keys[b]) / temperature for b in positives) / len(
            positives
        )
    return total / len(z)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_agrees_with_a_library_in_value_and_gradient(temperature: float) -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 1, 1])
    ours, theirs = (unit(10, 6, 0).requires_grad_() for _ in range(2))
    loss = supervised_contrast(ours, labels, temperature)
    expected = SupConLoss(temperature=temperature)(theirs, labels)
    loss.backward()
    expected.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert ours.grad is not None
    assert theirs.grad is not None
    # the library normalises once more, which removes the radial part of its gradient
    tangent = ours.grad - (ours.grad * ours.detach()).sum(1, keepdim=True) * ours.detach()
    torch.testing.assert_close(tangent, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_agrees_with_loops_also_where_rows_lack_partners(temperature: float) -> None:
    features, labels = unit(7, 5, 1), torch.tensor([0, 0, 1, 2, 2, 2, 4])
    found = supervised_contrast(features, labels, temperature)
    assert float(found) == pytest.approx(by_loops(features, labels, temperature), rel=1e-5)


def test_a_bank_joins_denominators_and_positives_only() -> None:
    features, labels = unit(6, 5, 2), torch.tensor([0, 1, 1, 2, 0, 2])
    bank = unit(9, 5, 3), torch.tensor([0, 1, 2, 3, 3, 0, 1, 2, 5])
    found = supervised_contrast(features, labels, 0.2, bank=bank)
    assert float(found) == pytest.approx(by_loops(features, labels, 0.2, bank), rel=1e-5)


@pytest.mark.parametrize("labels", [[0, 1, 1, 2, 0, 2], [0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 5]])
@pytest.mark.parametrize("size", [0, 5])
def test_gradient_by_finite_differences(labels: list[int], size: int) -> None:
    rows = unit(6, 4, 9).double().requires_grad_()
    bank = (unit(size, 4, 3).double(), torch.tensor([0, 1, 3, 3, 7])) if size else None

    def among(z: Tensor) -> Tensor:
        return supervised_contrast(z, torch.tensor(labels), 0.3, 0.2, bank)

    def with_bank(z: Tensor) -> Tensor:
        assert bank is not None
        return bank_contrast(z, torch.tensor(labels), bank, 0.3)

    assert torch.autograd.gradcheck(among, (rows,))
    if bank is not None:
        assert torch.autograd.gradcheck(with_bank, (rows,))


def test_contrast_with_a_bank_alone_agrees_with_loops() -> None:
    features, labels = unit(4, 5, 4), torch.tensor([0, 1, 1, 6])
    keys, key_labels = unit(5, 5, 5), torch.tensor([0, 1, 1, 2, 0])
    total = 0.0
    for a in range(3):  # class 6 has no key and contributes nothing
        same = [b for b in range(5) if int(key_labels[b]) == int(labels[a])]
        scores = [float(features[a].double() @ keys[b].double()) / 0.3 for b in range(5)]
        denominator = math.log(sum(map(math.exp, scores)))
        total += sum(denominator - scores[b] for b in same) / len(same)
    found = bank_contrast(features, labels, (keys, key_labels), 0.3)
    assert float(found) == pytest.approx(total / 4, rel=1e-5)


@pytest.mark.parametrize("rows", [2, 5, 1024])
def test_invariant_5_identical_features_of_one_class_give_log_n_minus_1(rows: int) -> None:
    features = F.normalize(torch.ones(rows, 4), dim=1)
    found = supervised_contrast(features, torch.zeros(rows, dtype=torch.int64), 0.07)
    assert float(found) == pytest.approx(math.log(rows - 1), abs=1e-5)


def test_base_temperature_scales() -> None:
    features, labels = unit(6, 5, 6), torch.tensor([0, 1, 0, 1, 2, 2])
    plain = supervised_contrast(features, labels, 0.5)
    scaled = supervised_contrast(features, labels, 0.5, base_temperature=0.25)
    assert float(scaled) == pytest.approx(2 * float(plain), rel=1e-6)


@pytest.mark.parametrize("labels", [[0], [0, 1], [2, 1, 0]])
def test_rows_without_partners_give_zero_and_no_gradient(labels: list[int]) -> None:
    features = unit(len(labels), 4, 7).requires_grad_()
    loss = supervised_contrast(features, torch.tensor(labels), 0.07)
    loss.backward()
    assert float(loss.detach()) == 0
    assert features.grad is not None
    assert bool((features.grad == 0).all())


def test_two_views_of_one_example_give_zero_with_zero_gradient() -> None:
    features = unit(2, 4, 8).double().requires_grad_()
    loss = supervised_contrast(features, torch.tensor([1, 1]), 0.07)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0, abs=1e-6)
    assert features.grad is not None
    torch.testing.assert_close(
        features.grad, torch.zeros(2, 4, dtype=torch.float64), atol=1e-5, rtol=0
    )


def test_large_similarities_stay_finite() -> None:
    features = F.normalize(torch.ones(8, 4), dim=1)
    assert math.isfinite(float(supervised_contrast(features, torch.arange(8) % 2, 1e-4)))
