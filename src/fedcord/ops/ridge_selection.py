"""Choosing λ, and measuring a linear model, from sums alone: no further round, no held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fedcord.core.errors import DataError
from fedcord.ops.symmetric import decompose

GRID = tuple(10 ** (step / 4) for step in range(-32, 9))
"""Ridges tried, relative to the mean eigenvalue: four per decade from 1e-8 to 100."""


ROUNDING = 1e-11
"""What is smaller relative to the largest is taken as zero."""

RICH, NEARLY_ALL = 0.5, 0.9
"""Features that fill more than this share of the samples' directions could fit nearly every sample;
solutions that use more than this share of what they could are then left out."""


def residual_sum(gram: Tensor, moment: Tensor, target_square: float, weight: Tensor) -> float:
    """Σ ||y − W'x||² over the samples behind the sums, exactly.

    Args:
        gram: [D, D] Σ x x'.
        moment: [D, C] Σ x y'.
        target_square: Σ ||y||².
        weight: [D, C].
    """
    return float(target_square - 2 * (weight * moment).sum() + (weight * (gram @ weight)).sum())


@dataclass(frozen=True)
class RidgePath:
    """Every ridge solution of one pair of sums at O(DC) each, after one eigendecomposition.

    Attributes:
        values: [R] eigenvalues of the Gram matrix, none negative; R is D, or less where the others
            are known to be 0.
        width: D, the number of features.
        projected: [R, C] moment in the basis of the eigenvectors.
        unreachable: squared error that no weights can remove.
        count: N, or the sum of the samples' weights.
    """

    values: Tensor
    width: int
    projected: Tensor
    unreachable: float
    count: float

    @staticmethod
    def of(gram: Tensor, moment: Tensor, target_square: float, count: float) -> RidgePath:
        """Decompose once."""
        values, vectors = decompose(gram)
        return RidgePath.of_spectrum(values, len(gram), vectors.T @ moment, target_square, count)

    @staticmethod
    def of_spectrum(
        values: Tensor, width: int, projected: Tensor, target_square: float, count: float
    ) -> RidgePath:
        """From eigenvalues [R], which rounding may have made negative, and the moment [R, C]."""
        values = values.clamp(min=0)
        kept = values > ROUNDING * values.max()
        reached = float((projected[kept] ** 2 / values[kept, None]).sum())
        # where the features can fit everything, the difference is rounding, which GCV would blow up
        rest = target_square - reached
        unreachable = rest if rest > ROUNDING * target_square else 0.0
        return RidgePath(values, width, projected, unreachable, count)

    @property
    def rank(self) -> int:
        """Directions in which there is any feature."""
        return int(self._kept.sum())

    def residual_sum(self, ridge: float) -> float:
        """Training squared error of the solution at `ridge`, without cancellation."""
        values, projected = self.values[self._kept, None], self.projected[self._kept]
        missed = ridge**2 / (values * (values + ridge) ** 2)
        return self.unreachable + float((projected**2 * missed).sum())

    def degrees(self, ridge: float) -> float:
        """Trace of the hat matrix: how many parameters the solution really uses."""
        return float((self.values / (self.values + ridge)).sum())

    def gcv(self, ridge: float) -> float:
        """Generalised cross-validation score; smaller is better."""
        return gcv_score(self.count, self.residual_sum(ridge), self.degrees(ridge))

    @property
    def _kept(self) -> Tensor:
        """[R] bool: eigenvalues that are more than rounding."""
        return self.values > ROUNDING * self.values.max()


def choose_ridge(gram: Tensor, moment: Tensor, target_square: float, count: float) -> float:
    """The ridge with the best generalised cross-validation score.

    It is a function of sums, so it does not depend on how the samples are spread over clients.
    """
    return best_ridge(RidgePath.of(gram, moment, target_square, count))


def best_ridge(path: RidgePath) -> float:
    """The ridge on the path with the best generalised cross-validation score."""
    mean = float(path.values.sum()) / path.width
    return best_on_grid(mean, path.rank, path.count, path.degrees, path.residual_sum)


def best_on_grid(
    mean: float,
    rank: int,
    count: float,
    degrees: Callable[[float], float],
    residual_sum: Callable[[float], float],
) -> float:
    """The ridge of the grid with the best generalised cross-validation score.

    Where features could fit nearly every sample, ridges so small that they nearly do are left out.
    A sample that occurs twice is a direction that costs no parameter and leaves no error, so with a
    few such samples the score of a perfect fit is near zero, however bad it is for new samples.

    Args:
        mean: eigenvalue of the Gram matrix, which the grid is relative to.
        rank: directions in which there is any feature.
        count: N, or the sum of the samples' weights.
        degrees: of a ridge, how many parameters its solution uses.
        residual_sum: of a ridge, the training squared error of its solution.
    """
    if not mean > 0:
        raise DataError(
            "all features are zero, so no ridge can be chosen; set `ridge` to a number, or use "
            "other features."
        )
    most = NEARLY_ALL * rank if rank > RICH * count else math.inf

    def score(ridge: float) -> float:
        return gcv_score(count, residual_sum(ridge), degrees(ridge))

    # a tie goes to the larger ridge: nothing is lost and the solve is better conditioned
    ridges = [mean * step for step in reversed(GRID)]
    return min((r for r in ridges if degrees(r) <= most), key=score, default=ridges[0])


def gcv_score(count: float, residual_sum: float, degrees: float) -> float:
    """N·RSS / (N − degrees)²."""
    free = count - degrees
    return count * residual_sum / free**2 if free > 0 else math.inf
