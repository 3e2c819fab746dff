"""Least squares with the unknown between two known matrices."""

from __future__ import annotations

from torch import Tensor

from fedcord.ops.symmetric import decompose


def sandwiched_solve(gram: Tensor, moment: Tensor, right: Tensor, ridge: float) -> Tensor:
    """Ω [F, H] that minimises ||R − F Ω W||² + ridge·||Ω||².

    Both Gram matrices are diagonalised, after which every entry of Ω is one division.

    Args:
        gram: [F, F] F'F.
        moment: [F, C] F'R.
        right: [H, C] W.
        ridge: above 0.
    """
    left_values, left = decompose(gram)
    right_values, basis = decompose(right @ right.T)
    turned = left.T @ moment @ right.T @ basis
    product = left_values.clamp(min=0)[:, None] * right_values.clamp(min=0)
    solution: Tensor = left @ (turned / (ridge + product)) @ basis.T
    return solution
