"""Merging changes of models, against loops over single numbers."""

from __future__ import annotations

import pytest
import torch

from fedcord.ops.merging import agreeing_mean, thinned, trimmed


def rows(models: int = 4, size: int = 23, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(models, size, generator=generator, dtype=torch.float64)


def slow_ties(changes: list[list[float]], weights: list[float], kept: int) -> list[float]:
    """Trim, elect, merge, as the paper says it, number by number."""
    cut = []
    for row in changes:
        order = sorted(range(len(row)), key=lambda place: -abs(row[place]))
        cut.append([value if place in order[:kept] else 0.0 for place, value in enumerate(row)])
    merged = []
    for column in zip(*cut, strict=True):
        positive = sum(w * v for w, v in zip(weights, column, strict=True) if v > 0)
        negative = -sum(w * v for w, v in zip(weights, column, strict=True) if v < 0)
        sign = 1 if positive > negative else -1
        same = [(w, v) for w, v in zip(weights, column, strict=True) if v * sign > 0]
        merged.append(sum(w * v for w, v in same) / sum(w for w, _ in same) if same else 0.0)
    return merged


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0, 1.0], [0.1, 0.4, 0.2, 0.3]])
@pytest.mark.parametrize("kept", [1, 5, 23])
def test_ties_is_what_the_paper_says(kept: int, weights: list[float]) -> None:
    changes, shares = rows(), torch.tensor(weights, dtype=torch.float64)
    found = agreeing_mean(trimmed(changes, kept / 23), shares)
    assert found.tolist() == pytest.approx(slow_ties(changes.tolist(), weights, kept))


def test_a_change_keeps_its_largest_part() -> None:
    assert trimmed(rows(), 0.3).count_nonzero(dim=1).tolist() == [7, 7, 7, 7]
    assert trimmed(rows(), 1e-9).count_nonzero(dim=1).tolist() == [1, 1, 1, 1]
    assert trimmed(rows(), 1.0).equal(rows())


def test_a_draw_between_signs_changes_nothing() -> None:
    opposed = torch.tensor([[1.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert agreeing_mean(opposed, weights).tolist() == [0.0, 0.0, 1.5]


def test_changes_that_agree_in_sign_have_their_mean() -> None:
    changes, weights = rows().abs(), torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
    assert torch.allclose(agreeing_mean(changes, weights), weights @ changes)


def test_a_thinned_change_is_the_same_on_average() -> None:
    change, generator = rows(1, 5)[0], torch.Generator().manual_seed(3)
    wide = change.repeat_interleave(40_000)
    found = thinned(wide, 0.9, generator).view(5, -1)
    assert torch.allclose(found.mean(1), change, rtol=0.1)
    assert float((found == 0).double().mean()) == pytest.approx(0.9, abs=0.01)
    assert torch.allclose(found.amax(1) + found.amin(1), 10 * change)  # the other is 0
    assert thinned(change, 0.0, generator).equal(change)
