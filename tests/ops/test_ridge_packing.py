"""Packed symmetric matrices and streamed Gram matrices: T6, T20."""

from __future__ import annotations

import math

import pytest
import torch

from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.ops.gram import GramAccumulator
from fedcord.ops.symmetric import diagonal_places, matrix_size, pack, svec, unpack, unsvec


def symmetric(size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return x + x.T


@pytest.mark.parametrize("size", [1, 2, 7])
def test_t20_packing_is_lossless_and_in_row_order(size: int) -> None:
    matrix = symmetric(size)
    packed = pack(matrix)
    assert packed.tolist() == [float(matrix[i, j]) for i in range(size) for j in range(i, size)]
    assert torch.equal(unpack(packed), matrix)
    assert torch.equal(packed[diagonal_places(size)], matrix.diagonal())


def test_t20_length_of_svec_is_the_frobenius_norm() -> None:
    matrix = symmetric(6)
    vector = svec(pack(matrix))
    assert float(vector.norm()) == pytest.approx(float(matrix.norm()), rel=1e-14)
    assert torch.allclose(unsvec(vector), pack(matrix), rtol=1e-15)
    assert float(vector[1]) == pytest.approx(math.sqrt(2) * float(matrix[0, 1]))


def test_lengths_no_matrix_has_are_refused() -> None:
    assert [matrix_size(n) for n in (1, 3, 6, 10)] == [1, 2, 3, 4]
    with pytest.raises(ProtocolError, match=r"7 numbers are not one triangle.*such as 6 or 10"):
        matrix_size(7)


@pytest.mark.parametrize("batch", [1, 7, 64, 100])
def test_t6_batch_size_does_not_matter(batch: int) -> None:
    x = torch.randn(100, 9, generator=torch.Generator().manual_seed(0))
    total = GramAccumulator(9)
    for part in x.split(batch):
        total.add(part)
    wanted = x.double().T @ x.double()
    assert torch.allclose(unpack(total.packed()), wanted, rtol=1e-12, atol=1e-12)


def test_more_rows_than_one_block_and_none_at_all() -> None:
    x = torch.randn(9000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total = GramAccumulator(3)
    total.add(x)
    total.add(x[:0])
    assert torch.allclose(unpack(total.packed()), x.T @ x, rtol=1e-12)


def test_features_that_are_not_finite_are_refused() -> None:
    rows = torch.ones(3, 2)
    rows[1, 1] = float("inf")
    with pytest.raises(NumericalError, match="features are not finite"):
        GramAccumulator(2).add(rows)
