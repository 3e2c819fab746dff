"""Ridge regression by block conjugate gradients: of G nothing is needed but products with it.

    R = Q − (G + λI) W             what is still missing, for every right side
    V ← [V, R made orthonormal]    whose product with G is asked for
    W = V (V'GV + λI)⁻¹ V'Q        the best there is in the span of V

Reference: O'Leary, "The block conjugate gradient algorithm and related methods", Linear Algebra and
its Applications 29, 1980. Every right side uses the directions of all, so that fewer products are
needed than by conjugate gradients for each; one right side is the method of Hestenes and Stiefel.

Directions and products are kept instead of recurrences. The span does not depend on λ, so that λ
can be chosen anew after every product, and rounding does not spoil what is orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.ops.ridge_selection import ROUNDING, RidgePath, best_ridge
from fedcord.ops.symmetric import decompose

DEPENDENT = 1e-6
"""A direction of length 1 of which less is new is not asked for: it would be mostly rounding."""


@dataclass(frozen=True)
class KnownProducts:
    """Directions whose product with G is known, in the form of Ritz pairs.

    Attributes:
        values: [m] eigenvalues of V'GV, ascending.
        vectors: [D, m] orthonormal, of the span of V.
        images: [D, m] G times `vectors`.
    """

    values: Tensor
    vectors: Tensor
    images: Tensor

    @staticmethod
    def of(directions: Tensor, products: Tensor) -> KnownProducts:
        """From directions [D, m], which need be nearly orthonormal only, and G times them."""
        orthonormal, triangle = torch.linalg.qr(directions)
        images = torch.linalg.solve_triangular(triangle, products, upper=True, left=False)
        small = orthonormal.T @ images
        values, turned = decompose((small + small.T) / 2)
        return KnownProducts(values, orthonormal @ turned, images @ turned)

    def solution(self, moment: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
        """W [D, C], the best in the span, and what is missing [D, C]: Q − (G + λI) W."""
        shifted = self.values + ridge
        usable = shifted > ROUNDING * shifted.max()
        part = torch.where(usable[:, None], self.vectors.T @ moment / shifted[:, None], 0.0)
        weight = self.vectors @ part
        return weight, moment - self.images @ part - ridge * weight

    def choose_ridge(
        self, moment: Tensor, trace: float, target_square: float, count: float
    ) -> float:
        """The ridge with the best generalised cross-validation score, as far as G is known.

        Of its other eigenvalues only the sum is known. They are taken as equal, which is when they
        use most degrees of freedom. Where the span holds all that G has, the ridge is that of the
        whole matrix.

        Args:
            moment: Q [D, C].
            trace: of G.
            target_square: Σ ||y||².
            count: number of samples.
        """
        width, values = moment.shape[0], self.values.clamp(min=0)
        unknown = max(min(width, int(count)) - len(values), 0)
        level = max(trace - float(values.sum()), 0.0) / max(unknown, 1)
        values = torch.cat([values, values.new_full((unknown,), level)])
        projected = self.vectors.T @ moment
        projected = torch.cat([projected, projected.new_zeros(unknown, moment.shape[1])])
        path = RidgePath.of_spectrum(values, width, projected, target_square, count)
        return best_ridge(path)


def new_directions(known: Tensor, missing: Tensor) -> Tensor:
    """Orthonormal directions [D, b], b ≤ C, of `missing` [D, C], orthogonal to `known` [D, m].

    What is zero, or within the directions before it, gives none.
    """
    width, start = known.shape
    found = torch.cat([known, torch.zeros_like(missing)], dim=1)
    end = start
    for column in missing.T:
        length = float(column.norm())
        if length == 0 or end == width:
            continue
        new, before = column / length, found[:, :end]
        for _ in range(2):  # the second time removes what rounding left
            new = new - before @ (before.T @ new)
        left = float(new.norm())
        if left > DEPENDENT:
            found[:, end] = new / left
            end += 1
    return found[:, start:end].clone()
