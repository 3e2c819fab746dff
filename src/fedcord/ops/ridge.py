"""The guarded solver of (G + λI) W = M: never an explicit inverse, never a silent change of λ.

The matrix is scaled to a unit diagonal and factored by Cholesky. Where rounding has made it
indefinite, a little is added to the diagonal, reported, and removed again by refinement. Without a
ridge a singular matrix is no mistake: the least-squares solution of smallest norm is taken from the
spectrum, which equals pinv(X) Y.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg.lapack
import torch
from torch import Tensor

from fedcord.core.errors import ConfigError, NumericalError, ProtocolError
from fedcord.core.tensors import is_finite
from fedcord.ops.gram import single_blas
from fedcord.ops.symmetric import decompose

JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""What may be added to the unit diagonal, tried in this order."""

WARN_ABOVE = 1e-8
EPSILON = torch.finfo(torch.float64).eps
REFINEMENTS = 3
ESTIMATE_STEPS = 4
RESIDUAL_SUMS = 8
"""Right sides that the residual is measured on; more are joined to that number."""

OnSingular = Literal["raise", "min_norm"]


@dataclass(frozen=True)
class SolveReport:
    """How a system was solved.

    Attributes:
        path: `cholesky`, `spectral` for the solution of smallest norm, `lifted` where noise had
            made eigenvalues negative, or `factor` where there was no Gram matrix.
        ridge: λ as asked for.
        jitter: what was added to the unit diagonal to factor it; the refinement took it out again.
        condition: estimate for the scaled matrix; infinite where the rank is not full.
        rank: number of directions used.
        residual: ||(G + λI) W − M|| / ||M||; an estimate where there are many right sides.
    """

    path: str
    ridge: float
    jitter: float
    condition: float
    rank: int
    residual: float


@dataclass(frozen=True)
class Factor:
    """A Cholesky factor as LAPACK leaves it, which saves the copies that PyTorch makes of it.

    Attributes:
        lower: [D, D] in Fortran's order; what is above the diagonal means nothing.
    """

    lower: npt.NDArray[np.float64]

    @staticmethod
    def of(matrix: Tensor) -> Factor | None:
        """The factor of a symmetric matrix [D, D]; None when it is not positive definite."""
        with single_blas():
            # the transpose of a symmetric matrix is itself, and has Fortran's order
            lower, info = scipy.linalg.lapack.dpotrf(matrix.numpy().T, lower=1, clean=0)
        return Factor(lower) if info == 0 else None

    def solve(self, right: Tensor) -> Tensor:
        """X [D, C] of (L L') X = right."""
        with single_blas():
            solution, _ = scipy.linalg.lapack.dpotrs(self.lower, right.numpy(), lower=1)
        return torch.from_numpy(np.ascontiguousarray(solution))


def solve_ridge(
    gram: Tensor, moment: Tensor, ridge: float, on_singular: OnSingular | None = None
) -> tuple[Tensor, SolveReport]:
    """W of (gram + ridge·I) W = moment.

    Args:
        gram: [D, D], symmetric up to rounding.
        moment: [D, C].
        ridge: λ ≥ 0.
        on_singular: what to do with a matrix that is not positive definite; by default the
            solution of smallest norm when `ridge` is 0 and an error otherwise, for then only
            corrupt statistics can be the cause.

    Returns:
        W [D, C] float64, and how it was found.
    """
    gram, moment = _checked(gram, moment, ridge)
    min_norm = on_singular == "min_norm" or (on_singular is None and ridge == 0)
    size = gram.shape[0]
    diagonal = gram.diagonal() + ridge
    scale = torch.where(diagonal > 0, diagonal.clamp(min=1e-300).rsqrt(), 1.0)
    scaled = (gram * scale).mul_(scale[:, None])
    scaled.diagonal().add_(ridge * scale**2)
    for jitter in JITTERS:
        factor = Factor.of(_with_diagonal(scaled, jitter))
        if factor is not None:
            break
        if ridge == 0:  # a jitter would fake a ridge
            return _rejected(gram, moment, ridge, min_norm)
    else:
        return _rejected(gram, moment, ridge, min_norm)
    condition = _condition(scaled, factor)
    if ridge == 0 and condition * 10 * size * EPSILON > 1:
        return _rejected(gram, moment, ridge, min_norm)  # it passed by luck of rounding
    weight = _refined(scaled, factor, scale[:, None] * moment, jitter) * scale[:, None]
    if jitter > WARN_ABOVE:
        warnings.warn(
            f"the matrix was factored only after adding {jitter:g} to its unit diagonal; the "
            "statistics are inconsistent or the ridge is too small.",
            RuntimeWarning,
            stacklevel=2,
        )
    residual = _residual(gram, weight, moment, ridge)
    return weight, SolveReport("cholesky", ridge, jitter, condition, size, residual)


def solve_min_norm(gram: Tensor, moment: Tensor, ridge: float = 0.0) -> tuple[Tensor, SolveReport]:
    """The solution of smallest norm: directions whose eigenvalue is rounding are left out."""
    gram, moment = _checked(gram, moment, ridge)
    values, vectors = decompose(_with_diagonal(gram, ridge))
    size = gram.shape[0]
    largest = float(values.abs().max()) if size else 0.0
    kept = values > 10 * size * EPSILON * largest
    inverse = torch.where(kept, 1.0 / torch.where(kept, values, 1.0), 0.0)
    weight = vectors @ (inverse[:, None] * (vectors.T @ moment))
    rank = int(kept.sum())
    smallest = float(values[kept].min()) if rank else 0.0
    condition = largest / smallest if rank == size and smallest > 0 else math.inf
    residual = _residual(gram, weight, moment, ridge)
    return weight, SolveReport("spectral", ridge, 0.0, condition, rank, residual)


def _checked(gram: Tensor, moment: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    if not (math.isfinite(ridge) and ridge >= 0):
        raise ConfigError(f"ridge = {ridge:g}: must be a finite number >= 0.")
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or moment.shape[0] != gram.shape[0]:
        raise ProtocolError(
            f"gram {list(gram.shape)} and moment {list(moment.shape)} do not fit; expected "
            "[D, D] and [D, C]."
        )
    if not (is_finite(gram) and is_finite(moment)):
        raise NumericalError(
            "the statistics hold values that are not finite; find the client that sent them."
        )
    gram = gram.to(torch.float64)
    return torch.add(gram, gram.T).mul_(0.5), moment.to(torch.float64)


def _rejected(
    gram: Tensor, moment: Tensor, ridge: float, min_norm: bool
) -> tuple[Tensor, SolveReport]:
    if min_norm:
        return solve_min_norm(gram, moment, ridge)
    raise NumericalError(
        f"the matrix is not positive definite with ridge {ridge:g}; the statistics are corrupt (a "
        "removal that was never added, noise, or features that were mixed up), or the ridge is too "
        "small for them."
    )


def _with_diagonal(matrix: Tensor, value: float) -> Tensor:
    if value == 0:
        return matrix
    out = matrix.clone()
    out.diagonal().add_(value)
    return out


def _refined(scaled: Tensor, factor: Factor, right: Tensor, jitter: float) -> Tensor:
    """Solve, and take the jitter out again by at most a few steps that must each improve."""
    solution = factor.solve(right)
    if jitter == 0:
        return solution
    rest = right - scaled @ solution
    for _ in range(REFINEMENTS):
        candidate = solution + factor.solve(rest)
        new_rest = right - scaled @ candidate
        if not float(new_rest.norm()) < float(rest.norm()):
            break
        solution, rest = candidate, new_rest
    return solution


def _condition(scaled: Tensor, factor: Factor) -> float:
    """Largest over smallest eigenvalue, by a few power steps each way from a fixed start."""
    start = torch.sin(torch.arange(1, scaled.shape[0] + 1, dtype=torch.float64) * 1.7) + 0.1
    forward = backward = start[:, None] / start.norm()
    largest = smallest = 1.0
    for _ in range(ESTIMATE_STEPS):
        forward = scaled @ forward
        largest = float(forward.norm())
        forward = forward / max(largest, 1e-300)
        backward = factor.solve(backward)
        inverse = float(backward.norm())
        if not math.isfinite(inverse):
            return math.inf
        backward = backward / max(inverse, 1e-300)
        smallest = 1 / max(inverse, 1e-300)
    return largest / smallest


def _residual(gram: Tensor, weight: Tensor, moment: Tensor, ridge: float) -> float:
    """||(G + λI) W − M|| / ||M||, by a few sums of its columns with signs.

    A sum of columns with random signs has, in the mean of squares, the length of the whole matrix;
    a column that is off shows in every such sum.
    """
    size = float(moment.norm())
    if size == 0:
        return 0.0
    columns = moment.shape[1]
    if columns > RESIDUAL_SUMS:
        signs = 2.0 * (torch.sin(torch.arange(1, columns * RESIDUAL_SUMS + 1) ** 2) > 0) - 1.0
        mix = signs.to(torch.float64).view(columns, RESIDUAL_SUMS) / math.sqrt(RESIDUAL_SUMS)
        weight, moment = weight @ mix, moment @ mix
    return float((gram @ weight + ridge * weight - moment).norm()) / size
