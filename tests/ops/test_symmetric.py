"""Eigenvalues of symmetric matrices, also where the fast method gives up."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedcord.core.errors import NumericalError
from fedcord.ops.ridge_selection import RidgePath, best_ridge
from fedcord.ops.symmetric import decompose


def _gives_up(matrix: Tensor) -> tuple[Tensor, Tensor]:
    raise torch.linalg.LinAlgError("failed to converge")  # type: ignore[attr-defined]


def _few_samples(count: int = 1) -> Tensor:
    """Features of table look-ups: whole numbers, and nearly all eigenvalues the same."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(0, 16, (count, 44), generator=generator)
    return F.one_hot(places, 16).flatten(1).double()


def test_the_usual_matrix_has_the_usual_bits() -> None:
    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for mine, theirs in zip(
        decompose(rows.T @ rows), torch.linalg.eigh(rows.T @ rows), strict=True
    ):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("fast", [True, False])
def test_sums_over_one_sample_are_decomposed(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.setattr(torch.linalg, "eigh", _gives_up)
    rows = _few_samples()
    gram = rows.T @ rows
    values, vectors = decompose(gram)
    torch.testing.assert_close((vectors * values) @ vectors.T, gram, rtol=0, atol=1e-10)
    torch.testing.assert_close(values[-1], torch.tensor(44.0).double())
    path = RidgePath.of(gram, rows.T @ torch.ones(1, 1).double(), 1.0, 1.0)
    assert path.rank == 1
    assert best_ridge(path) > 0


def test_what_no_method_can_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.linalg, "eigh", _gives_up)
    with pytest.raises(NumericalError, match="a symmetric 2x2 matrix of sums has no eigenvalues"):
        decompose(torch.full((2, 2), float("nan")))
