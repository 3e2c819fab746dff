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

from fedcord.ops.ridge_selection import ROUNDING, RidgePath, best_on_grid
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
        self, moment: Tensor, probe: Tensor, trace: float, target_square: float, count: float
    ) -> float:
        """The ridge with the best generalised cross-validation score, without the spectrum of G.

        The training error of a solution follows from the products. Its degrees of freedom are
        D − λ tr (G + λI)⁻¹, where the trace is estimated by z'(G + λI)⁻¹z for a random z of signs
        (Hutchinson), whose directions must be among the known ones as those of Q are.

        Args:
            moment: Q [D, C].
            probe: z [D, 1].
            trace: of G.
            target_square: Σ ||y||².
            count: number of samples.
        """
        width = moment.shape[0]
        projected, square = self.vectors.T @ moment, (self.vectors.T @ probe).square().sum(dim=1)
        path = RidgePath.of_spectrum(self.values, width, projected, target_square, count)

        def degrees(ridge: float) -> float:
            return width - ridge * float((square / (path.values + ridge)).sum())

        rank = min(width, int(count))
        return best_on_grid(trace / width, rank, count, degrees, path.residual_sum)


def new_directions(known: Tensor, missing: Tensor) -> Tensor:
    """Orthonormal directions [D, b], b ≤ R, of `missing` [D, R], orthogonal to `known` [D, m].

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
