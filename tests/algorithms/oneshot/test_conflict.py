"""Opposing gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.oneshot.conflict import Conflict


def gradients(seed: int, opposed: bool) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base, align = (torch.randn(3, 4, generator=generator) for _ in range(2))
    is_opposed = float((base * align).sum()) < 0
    return base, align if is_opposed == opposed else -align


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["pcgrad_local", "pcgrad_sym"])
def test_invariant_23_no_conflict_is_left(kind: str, seed: int) -> None:
    base, align = gradients(seed, opposed=True)
    freed, pull = Conflict(kind).resolve(base, align)
    assert float((freed * align).sum()) >= -1e-6
    if kind == "pcgrad_sym":
        assert float((pull * base).sum()) >= -1e-6
    else:
        assert pull is align


@pytest.mark.parametrize("kind", ["none", "pcgrad_local", "pcgrad_sym"])
def test_invariant_23_agreeing_gradients_are_unchanged(kind: str) -> None:
    base, align = gradients(0, opposed=False)
    freed, pull = Conflict(kind).resolve(base, align)
    assert freed is base
    assert pull is align


def test_projection_agrees_with_the_formula_one_number_at_a_time() -> None:
    base, align = gradients(1, opposed=True)
    flat_base, flat_align = base.flatten().tolist(), align.flatten().tolist()
    dot = sum(b * a for b, a in zip(flat_base, flat_align, strict=True))
    square = sum(a * a for a in flat_align)
    expected = [b - dot / square * a for b, a in zip(flat_base, flat_align, strict=True)]
    freed, _ = Conflict("pcgrad_local").resolve(base, align)
    torch.testing.assert_close(freed.flatten(), torch.tensor(expected))


def test_a_vanishing_pull_projects_nothing() -> None:
    base = torch.ones(2, 2)
    freed, _ = Conflict("pcgrad_local").resolve(base, -1e-8 * torch.ones(2, 2))
    assert torch.equal(freed, base)


def test_none_leaves_conflicts() -> None:
    base, align = gradients(2, opposed=True)
    assert Conflict().resolve(base, align)[0] is base
