"""Fixed point: exact sums, refused overflows."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from fedcord.core.errors import NumericalError
from fedcord.ops.fixed_point import check_sum, from_fixed, to_fixed


def test_values_are_rounded_to_the_nearest_step_and_sums_are_exact() -> None:
    values = torch.randn(5, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    steps = [to_fixed(row, 20) for row in values]
    slow = [[round(Fraction(v) * 2**20) for v in row.tolist()] for row in values]
    assert [row.tolist() for row in steps] == slow
    total = torch.stack(steps).sum(0)
    assert torch.equal(total, torch.stack(steps[::-1]).sum(0))
    assert total.tolist() == [sum(column) for column in zip(*slow, strict=True)]
    assert float((from_fixed(steps[0], 20) - values[0]).abs().max()) <= 2.0**-21


def test_what_would_overflow_in_a_sum_is_refused() -> None:
    with pytest.raises(NumericalError, match="1e\\+12 does not fit fixed point with 24 fraction"):
        to_fixed(torch.tensor([1e12], dtype=torch.float64), 24)
    largest = 2.0**31 / 8
    kept = to_fixed(torch.tensor([-largest * 0.999], dtype=torch.float64), summands=8)
    assert 8 * int(kept) >= -(2**63)
    for value in (largest, torch.inf, torch.nan):
        with pytest.raises(NumericalError, match="for sums of 8"):
            to_fixed(torch.tensor([value], dtype=torch.float64), summands=8)
    assert to_fixed(torch.zeros(0, dtype=torch.float64)).shape == (0,)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_sum_that_leaves_64_bits_is_refused(sign: int) -> None:
    large, small = torch.tensor([3, sign * (2**63 - 8)]), torch.tensor([-7, sign])
    check_sum(large, small)
    assert (large + small).tolist() == [-4, sign * (2**63 - 7)]
    with pytest.raises(NumericalError, match="leave 64 bits"):
        check_sum(large, small - 1)
    with pytest.raises(NumericalError, match="leave 64 bits"):
        check_sum(torch.tensor(-(2**63)), torch.tensor(0))
    check_sum(torch.zeros(0, dtype=torch.int64), small)
