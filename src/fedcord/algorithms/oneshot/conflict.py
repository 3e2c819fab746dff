"""What to do when the base loss and the alignment pull prototypes in opposite directions.

Reference: Yu et al., "Gradient Surgery for Multi-Task Learning" (PCGrad), NeurIPS 2020.

Alignment has a gradient on prototypes only, so only their block can be in conflict; the encoder's
is never changed. With two tasks the random order of the paper makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedcord.core.params import check_params, param

SMALLEST_SQUARE = 1e-12
"""Gradients with a smaller squared norm have no direction to project on."""


@dataclass(frozen=True)
class Conflict:
    """Which gradient gives way."""

    kind: str = param(
        "none",
        "none; the base loss's gradient gives way (local); both do (sym)",
        choices=("none", "pcgrad_local", "pcgrad_sym"),
    )

    def __post_init__(self) -> None:
        check_params(self)

    def resolve(self, base: Tensor, align: Tensor) -> tuple[Tensor, Tensor]:
        """Both gradients [C, D] without the parts that oppose the other."""
        if self.kind == "none":
            return base, align
        dot = (base * align).sum()
        if dot >= 0:
            return base, align
        freed = _without(base, align, dot)
        return freed, _without(align, base, dot) if self.kind == "pcgrad_sym" else align


def _without(gradient: Tensor, other: Tensor, dot: Tensor) -> Tensor:
    """`gradient` minus its projection on `other`."""
    square = other.square().sum()
    if square < SMALLEST_SQUARE:
        return gradient
    return gradient - (dot / square) * other
