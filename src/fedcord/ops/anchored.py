"""Least squares whose unknown is pulled to a given model, or stands between two known matrices.

    minimise over P   ||F P − Y||² + weight · tr((P − W₀)' S (P − W₀))

With S the federation's Gram matrix and weight 1/α it is FedHiP's personal model; with S = I it is
pFedACnnL's. `sandwiched_solve` finds a residual block of DeepAFL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcord.core.errors import NumericalError
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.symmetric import decompose


def anchored_solve(
    gram: Tensor, moment: Tensor, anchor: Tensor, metric: Tensor, weight: float
) -> Tensor:
    """P from the client's sums: anchor + (G + weight·S)⁻¹ (M − G·anchor).

    Args:
        gram: [D, D] F'F.
        moment: [D, C] F'Y.
        anchor: [D, C] W₀.
        metric: [D, D] S, positive definite.
        weight: pull towards the anchor, above 0.
    """
    change, _ = solve_ridge(gram + weight * metric, moment - gram @ anchor, 0.0)
    return anchor + change


@dataclass(frozen=True)
class AnchoredPath:
    """Personal models for every weight α of the client's own data, after one factorisation.

    With S = L L', B = L⁻¹F' and B B' = U diag(s²) U', the inverse of S + αF'F is
    L⁻ᵀ (I − U diag(αs²/(1+αs²)) U') L⁻¹. A client with fewer samples than features reduces B by a
    thin QR first, so that it decomposes a matrix of its own number of samples.

    Attributes:
        features: [N, D] F.
        residual: [N, C] Y − F W₀.
        anchor: [D, C] W₀.
        basis: [D, R] L⁻ᵀ U.
        square: [R] s².
        rotated: [R, N] U' B.
    """

    features: Tensor
    residual: Tensor
    anchor: Tensor
    basis: Tensor
    square: Tensor
    rotated: Tensor

    @staticmethod
    def of(features: Tensor, targets: Tensor, anchor: Tensor, metric: Tensor) -> AnchoredPath:
        """Factor once.

        Args:
            features: [N, D] F.
            targets: [N, C] Y.
            anchor: [D, C] W₀.
            metric: [D, D] S, positive definite.
        """
        factor, info = torch.linalg.cholesky_ex(metric)
        if int(info) != 0:
            raise NumericalError(
                "the metric is not positive definite; give the solve a ridge above 0."
            )
        whitened = torch.linalg.solve_triangular(factor, features.T, upper=False)  # [D, N]
        if features.shape[0] < features.shape[1]:
            frame, whitened = torch.linalg.qr(whitened)  # [D, N], [N, N]
            back = torch.linalg.solve_triangular(factor.T, frame, upper=True)
        else:
            eye = torch.eye(metric.shape[0], dtype=metric.dtype)
            back = torch.linalg.solve_triangular(factor.T, eye, upper=True)
        square, u = decompose(whitened @ whitened.T)
        rest = targets - features @ anchor
        return AnchoredPath(features, rest, anchor, back @ u, square.clamp(min=0), u.T @ whitened)

    def model(self, alpha: float) -> Tensor:
        """P [D, C] with the client's own samples counted α times more."""
        gain = alpha / (1 + alpha * self.square)
        return self.anchor + self.basis @ (gain[:, None] * (self.rotated @ self.residual))

    def leave_one_out(self, alpha: float, own_weight: float) -> Tensor:
        """Residuals [N, C] of each own sample under the model fitted without it.

        Args:
            alpha: extra weight of own samples.
            own_weight: how often a sample is counted in S + αF'F altogether: 1 + α when S already
                holds the client's samples, α when it does not.
        """
        # h_i = f_i' (S + αF'F)⁻¹ f_i, in the rotated basis
        leverage = (self.rotated**2 / (1 + alpha * self.square)[:, None]).sum(0)
        fitted = self.residual - self.features @ (self.model(alpha) - self.anchor)
        return fitted / (1 - own_weight * leverage).clamp(min=1e-12)[:, None]

    def choose(
        self, alphas: Sequence[float], targets: Tensor, contains_own: bool
    ) -> tuple[float, Tensor]:
        """The α with the fewest leave-one-out mistakes, and its model.

        Ties go to the smaller squared error, then to the smaller α.

        Args:
            alphas: the grid.
            targets: [N, C] one-hot.
            contains_own: whether the metric already holds the client's samples.
        """
        labels = targets.argmax(1)
        scored = []
        for alpha in alphas:
            errors = self.leave_one_out(alpha, alpha + contains_own)
            mistakes = int(((targets - errors).argmax(1) != labels).sum())
            scored.append((mistakes, float((errors**2).sum()), alpha))
        chosen = min(scored)[2]
        return chosen, self.model(chosen)


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
