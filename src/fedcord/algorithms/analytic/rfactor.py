"""Statistics as a triangular factor instead of a Gram matrix: [X | Y] = Q [R | Z].

R'R = X'X and R'Z = X'Y, so it tells the same; but R has the condition of X, not its square, and a
client with few samples has only that many rows. Factors are merged by stacking and factoring again,
in any order. They cannot be added, hence neither masked nor noised as sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.errors import ProtocolError


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

    def solve(self, ridge: float) -> Tensor:
        """Ridge solution [D, C] without ever squaring the condition."""
        size = self.r.shape[1]
        extra = ridge**0.5 * torch.eye(size, dtype=self.r.dtype)
        rows = torch.cat([self.r, extra])
        targets = torch.cat([self.z, self.z.new_zeros(size, self.z.shape[1])])
        driver = "gelsd" if ridge == 0 else "gels"
        solution: Tensor = torch.linalg.lstsq(rows, targets, driver=driver).solution
        return solution
