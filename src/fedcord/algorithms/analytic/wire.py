"""How statistics travel: one name per format, the same names, shapes and types from every client.

| format | numbers | for |
|---|---|---|
| `packed64` | float64 triangle | the default: exact |
| `packed32` | float32 triangle | half the bytes; the server checks that the solve bears it |
| `svec` | float64 triangle with √2 off the diagonal | lengths mean something: privacy noise |
| `fixed64` | int64, value × 2^f | sums equal in every bit in any order |
| `masked64` | the same with random masks that cancel in the sum | hiding single messages |

`rfactor`, the triangular factor of the samples instead of their Gram matrix, cannot be added. Afl
offers it with a way of merging of its own; see `fedcord.algorithms.analytic.factor_messages`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.core.errors import NumericalError
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.symmetric import svec, unsvec

FORMATS = ("packed64", "packed32", "svec", "fixed64")
MASKED = "masked64"
RFACTOR = "rfactor"
INTEGERS = ("fixed64", MASKED)
REAL = ("gram", "moment", "target_square")

FRACTION_BITS = 32
"""Default f of `fixed64`: room for sums up to 2^30 with steps of 2e-10."""

WORST_CONDITION_32 = 1e-3 / 6e-8
"""Beyond it, float32 sums change the third digit of the solution."""


def encode_stats(
    stats: SufficientStats, form: str, fraction_bits: int = FRACTION_BITS
) -> dict[str, Tensor]:
    """The message of one client."""
    tensors = stats.tensors()
    if form == "packed32":
        tensors.update({name: tensors[name].to(torch.float32) for name in REAL})
    elif form == "svec":
        tensors["gram"] = svec(tensors["gram"])
    elif form in INTEGERS:
        tensors.update({name: to_fixed(tensors[name], fraction_bits) for name in REAL})
    return tensors


def decode_stats(
    tensors: Tensors, form: str, fraction_bits: int = FRACTION_BITS
) -> SufficientStats:
    """The inverse of `encode_stats`, in float64."""
    plain = dict(tensors)
    if form == "packed32":
        plain.update({name: plain[name].to(torch.float64) for name in REAL})
    elif form == "svec":
        plain["gram"] = unsvec(plain["gram"])
    elif form in INTEGERS:
        plain.update({name: from_fixed(plain[name], fraction_bits) for name in REAL})
    return SufficientStats.from_tensors(plain)


def wire_spec(form: str, num_features: int, num_classes: int) -> Mapping[str, TensorSpec]:
    """Shapes and types of a message."""
    dtype = torch.int64 if form in INTEGERS else torch.float64
    dtype = torch.float32 if form == "packed32" else dtype
    return {
        name: TensorSpec(spec.shape, dtype if name in REAL else spec.dtype)
        for name, spec in SufficientStats.spec(num_features, num_classes).items()
    }


def to_fixed(values: Tensor, fraction_bits: int) -> Tensor:
    """round(values · 2^f) as int64; values that leave too little room for sums are refused."""
    limit = 2.0 ** (62 - fraction_bits)
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not largest < limit:
        raise NumericalError(
            f"a value of {largest:g} does not fit fixed point with {fraction_bits} fraction bits "
            f"(below {limit:g}); scale the features down, or use wire=packed64."
        )
    return (values * 2.0**fraction_bits).round().to(torch.int64)


def from_fixed(values: Tensor, fraction_bits: int) -> Tensor:
    """The inverse of `to_fixed`, in float64."""
    return values.to(torch.float64) / 2.0**fraction_bits


def fraction_bits_for(max_count: int, max_norm: float) -> int:
    """The most fraction bits with which a sum over the federation cannot overflow.

    Args:
        max_count: most samples there may be altogether.
        max_norm: longest feature vector there may be.
    """
    bits = min(62 - math.ceil(math.log2(max_count * max(max_norm**2, 1.0))), 40)
    if bits < 20:
        raise NumericalError(
            f"{max_count} samples of length up to {max_norm:g} leave {bits} fraction bits, at "
            "least 20 are needed; clip the features."
        )
    return bits


def check_float32_is_enough(condition: float) -> None:
    """Refuse statistics that travelled in float32 when the solve would magnify the rounding."""
    if condition > WORST_CONDITION_32:
        raise NumericalError(
            f"the statistics travelled in float32 but the system has condition {condition:.2g} "
            f"(at most {WORST_CONDITION_32:.2g} is safe); use wire=packed64, or a larger ridge."
        )
