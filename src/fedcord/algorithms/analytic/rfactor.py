"""Statistics as a triangular factor instead of a Gram matrix: [X | Y] = Q [R | Z].

R'R = X'X and R'Z = X'Y, so it tells the same; but R has the condition of X, not its square, and a
client with few samples has only that many rows. Factors are merged by stacking and factoring again,
in any order. They cannot be added, hence neither masked nor noised as sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.errors import ProtocolError
from fedcord.ops.ridge import EPSILON, SolveReport
from fedcord.ops.ridge_selection import RidgePath


@dataclass(frozen=True)
class RFactor:
    """R [m, D] upper trapezoidal and Z [m, C], with m at most D."""

    r: Tensor
    z: Tensor

    @staticmethod
    def of(features: Tensor, targets: Tensor) -> RFactor:
        """The factor of samples: features [N, D], targets [N, C]."""
        q, r = torch.linalg.qr(features)
        return RFactor(r, q.T @ targets)

    def merge(self, other: RFactor) -> RFactor:
        """The factor of both sets of samples."""
        if self.r.shape[1] != other.r.shape[1] or self.z.shape[1] != other.z.shape[1]:
            raise ProtocolError(
                f"factors of {self.r.shape[1]} and {other.r.shape[1]} features with "
                f"{self.z.shape[1]} and {other.z.shape[1]} classes cannot be merged."
            )
        return RFactor.of(torch.cat([self.r, other.r]), torch.cat([self.z, other.z]))

    @property
    def num_numbers(self) -> int:
        """Numbers to send: the trapezoid of R, and Z."""
        rows, size = self.r.shape
        return rows * size - rows * (rows - 1) // 2 + self.z.numel()

    def gram(self) -> Tensor:
        """X'X [D, D]."""
        return self.r.T @ self.r

    def moment(self) -> Tensor:
        """X'Y [D, C]."""
        return self.r.T @ self.z

    def path(self, target_square: float, count: float) -> RidgePath:
        """Every ridge solution, from the singular values of R: nothing is squared but they.

        Args:
            target_square: Σ ||y||² of the samples.
            count: how many there are.
        """
        u, s, _ = self._decomposed()
        reached = u.T @ self.z
        kept = _kept(s, self.r.shape[1])
        rest = max(target_square - float((reached[kept] ** 2).sum()), 0.0)
        return RidgePath(s**2, self.r.shape[1], s[:, None] * reached, rest, count)

    def solve(self, ridge: float) -> tuple[Tensor, SolveReport]:
        """Ridge solution [D, C] without ever squaring the condition; at 0 that of smallest norm."""
        u, s, vh = self._decomposed()
        kept = _kept(s, self.r.shape[1]) if ridge == 0 else torch.ones_like(s, dtype=torch.bool)
        gain = torch.where(kept, s / torch.where(kept, s**2 + ridge, 1.0), 0.0)
        weight = vh.T @ (gain[:, None] * (u.T @ self.z))
        moment = self.moment()
        missed = self.r.T @ (self.r @ weight) + ridge * weight - moment
        residual = float(missed.norm()) / max(float(moment.norm()), 1e-300)
        size, rank = self.r.shape[1], int(kept.sum())
        lowest = float(s.min()) ** 2 + ridge if len(s) == size else ridge
        full = lowest > 0 and (ridge > 0 or rank == size)
        condition = (float(s.max()) ** 2 + ridge) / lowest if full else math.inf
        rank = size if ridge > 0 else rank
        return weight, SolveReport("factor", ridge, 0.0, condition, rank, residual)

    def _decomposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """U, ascending singular values and V' of R."""
        u, s, vh = torch.linalg.svd(self.r, full_matrices=False)
        return u.flip(1), s.flip(0), vh.flip(0)


def _kept(singular: Tensor, size: int) -> Tensor:
    """Directions that are more than rounding."""
    return singular > 10 * size * EPSILON * singular.max()
