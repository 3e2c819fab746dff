"""What sums of features tell about samples to somebody who has the feature map.

A client that has added up G = Σ x x' and Q = Σ x y' has hidden little:

- leverage: x'(G + τI)⁻¹x of one candidate, knowing nothing else. With fewer samples than features,
  a member lies in the span of G and others do not, so membership is certain. With more, a member
  has lowered its own leverage from h to h / (1 + h).
- reconstruction: with a list that has all members and others beside them, G and Q are linear in who
  is in, D(D+1)/2 + DC equations for as many unknowns as the list is long. Where noise of deviation
  σ is in them, the best linear estimate under even odds takes it into account.

Neither needs a shadow model.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcord.algorithms.analytic.stats import SufficientStats

SMALLEST = 1e-12
"""τ where there is no noise, relative to the mean eigenvalue of G."""
LONGEST_LIST = 10_000
"""Unknowns of a reconstruction at most; its matrix takes 8 x length² bytes."""


def leverage_scores(stats: SufficientStats, rows: Tensor, ridge: float = 0.0) -> Tensor:
    """[N] higher for those who look like members.

    Args:
        stats: the sums.
        rows: [N, D] candidates as they would be summed.
        ridge: τ at least, such as the spectral norm of the noise in the sums.
    """
    gram = stats.gram_matrix()
    values, vectors = torch.linalg.eigh(gram)
    least = max(ridge, SMALLEST * float(values.mean()), torch.finfo(gram.dtype).tiny)
    energy: Tensor = (rows @ vectors).square()  # [N, D]
    leverage: Tensor = (energy / (values.clamp(min=0) + least)).sum(1)
    return -leverage


class Reconstruction:
    """Who of a list is in sums, solved for; the list is factored once for any number of sums.

    Args:
        rows: [N, D] of everybody on the list, all members among them.
        labels: [N].
        noise: σ of every number in the sums.
    """

    def __init__(self, rows: Tensor, labels: Tensor, noise: float = 0.0) -> None:
        self._rows, self._labels = rows, labels
        alike = rows @ rows.T
        self._system = (labels[:, None] == labels).to(rows.dtype)
        self._system.add_(alike).mul_(alike)  # inner products of (x x', x y'), in place
        del alike
        self._half = 0.5 * self._system.sum(1)
        scale = float(self._system.diagonal().mean())
        # by even odds, whether somebody is in has mean 1/2 and variance 1/4
        ridge = max(4 * noise**2, SMALLEST * scale)
        self._system.diagonal().add_(ridge)
        self._factor = torch.linalg.cholesky(self._system, out=self._system)

    def scores(self, stats: SufficientStats) -> Tensor:
        """[N] near 1 for those in the sums, near 0 for the others."""
        x = self._rows
        said = ((x @ stats.gram_matrix()) * x).sum(1)
        said += (x * stats.moment.T[self._labels]).sum(1)
        gap = (said - self._half)[:, None]
        return 0.5 + torch.cholesky_solve(gap, self._factor).squeeze(1)
