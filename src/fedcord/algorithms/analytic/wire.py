"""How statistics travel: one name per format, the same names, shapes and types from every client.

| format | numbers | for |
|---|---|---|
| `packed64` | float64 triangle | the default: exact |
| `packed32` | float32 triangle | half the bytes; the server checks that the solve bears it |
| `svec` | float64 triangle with √2 off the diagonal | lengths mean something: privacy noise |
| `fixed64` | int64, value × 2^f | sums equal in every bit in any order |

`rfactor`, the triangular factor of the samples instead of their Gram matrix, cannot be added. Afl
offers it with a way of merging of its own; see `fedcord.algorithms.analytic.factor_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.core.errors import NumericalError
from fedcord.core.tensors import Tensors, TensorSpec
from fedcord.ops.fixed_point import FRACTION_BITS, from_fixed, to_fixed
from fedcord.ops.symmetric import diagonal_places, svec, unsvec

FORMATS = ("packed64", "packed32", "svec", "fixed64")
RFACTOR = "rfactor"
REAL = ("gram", "moment", "target_square")

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
    elif form == "fixed64":
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
    elif form == "fixed64":
        plain.update({name: from_fixed(plain[name], fraction_bits) for name in REAL})
    return SufficientStats.from_tensors(plain)


def wire_spec(form: str, num_features: int, num_classes: int) -> Mapping[str, TensorSpec]:
    """Shapes and types of a message."""
    dtype = torch.int64 if form == "fixed64" else torch.float64
    dtype = torch.float32 if form == "packed32" else dtype
    return {
        name: replace(spec, dtype=dtype if name in REAL else spec.dtype)
        for name, spec in SufficientStats.spec(num_features, num_classes).items()
    }


def gram_rounding(stats: SufficientStats, form: str, messages: int) -> float:
    """How far the Gram matrix of summed messages may be from that of the samples, at most.

    As a spectral norm, so that no eigenvalue is further off. It is at most the Frobenius norm, and
    that of entries √(Gᵢᵢ Gⱼⱼ), which no entry of a Gram matrix exceeds, is the trace of G.

        fixed64    every entry of every message is off by half a step of 2⁻³²: messages·D·2⁻³³
        packed32   every entry of a message by 2⁻²⁴ of itself: 2⁻²⁴ of the trace
        all        every addition, and what `svec` does to a message, by 2⁻⁵³ of an entry

    Twice as much is allowed, since sums are rounded again where an encoder is dropped.

    Args:
        stats: the sums of all who have been in them.
        form: how messages travelled.
        messages: how many there were.
    """
    trace = float(stats.gram[diagonal_places(stats.num_features)].sum())
    rounding = 2 * (messages + 1) * 2.0**-53 * trace
    if form == "fixed64":
        rounding += messages * stats.num_features * 2.0**-FRACTION_BITS
    elif form == "packed32":
        rounding += 2 * 2.0**-24 * trace
    return rounding


def check_float32_is_enough(condition: float) -> None:
    """Refuse statistics that travelled in float32 when the solve would magnify the rounding."""
    if condition > WORST_CONDITION_32:
        raise NumericalError(
            f"the statistics travelled in float32 but the system has condition {condition:.2g} "
            f"(at most {WORST_CONDITION_32:.2g} is safe); use wire=packed64, or a larger ridge."
        )
