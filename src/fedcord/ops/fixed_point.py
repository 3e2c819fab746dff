"""Real numbers as whole ones, whose sums are exact in any order: v stands for v / 2^f."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.core.errors import NumericalError

FRACTION_BITS = 32
"""f where nobody says otherwise: sums up to 2^31 in steps of 2e-10."""


def to_fixed(values: Tensor, fraction_bits: int = FRACTION_BITS, summands: int = 2) -> Tensor:
    """round(values · 2^f) as int64.

    Args:
        values: real numbers.
        fraction_bits: f.
        summands: how many of them must be able to be added without leaving 64 bits.

    Raises:
        NumericalError: a value is too large for that, or not a number.
    """
    limit = 2.0 ** (63 - fraction_bits) / summands
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not largest < limit:
        raise NumericalError(
            f"a value of {largest:g} does not fit fixed point with {fraction_bits} fraction bits "
            f"(below {limit:g} for sums of {summands}); scale features or weights down, or let "
            "numbers travel in floating point (wire=packed64, and no --secure)."
        )
    return (values * 2.0**fraction_bits).round().to(torch.int64)


def check_sum(first: Tensor, second: Tensor) -> None:
    """Refuse to add whole numbers whose sum could leave 64 bits: it would come out as another.

    Raises:
        NumericalError: the largest of both together are too large.
    """
    largest = sum(max(map(abs, map(int, own.aminmax()))) for own in (first, second) if own.numel())
    if largest >= 2**63:
        raise NumericalError(
            "sums in fixed point leave 64 bits; scale features or weights down, or let numbers "
            "travel in floating point (wire=packed64, and no --secure)."
        )


def from_fixed(values: Tensor, fraction_bits: int = FRACTION_BITS) -> Tensor:
    """The inverse of `to_fixed`, in float64."""
    return values.to(torch.float64) / 2.0**fraction_bits
