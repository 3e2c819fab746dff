"""A mean over data sets that are a sample of data sets: what holds beyond those that were run.

The difference of two methods on data set i is θ_i, of which the runs show y_i with the sampling
variance v_i. Data sets scatter around the mean that is asked for with variance τ²:

y_i ~ N(θ_i, v_i), θ_i ~ N(μ, τ²).

τ² is Paule and Mandel's (1982): the one for which the weighted squares around the mean are as many
as expected, Σ w_i (y_i − μ)² = k − 1 with w_i = 1/(v_i + τ²), or 0 where there are fewer already.
The interval of μ is Hartung and Knapp's (2001), which takes Student's t with k − 1 degrees of
freedom and the scatter that is seen: with few data sets the normal interval covers far less than it
claims. As Röver, Knapp and Friede (2015) advise, that scatter is not taken for less than 1, so that
data sets that agree by chance do not narrow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import NumericalError
from fedcord.statistics.intervals import (
    FLAT,
    VANISHING,
    MeanInterval,
    check_confidence,
    checked_values,
    is_flat,
)

METHOD = "Hartung-Knapp"


@dataclass(frozen=True)
class RandomEffects:
    """What a sample of data sets says about all that are like them.

    Attributes:
        mean: over data sets, each weighted by how well its own is known.
        interval: of that mean; may be absent.
        p: two-sided, that the mean is zero; None without an interval.
        spread: standard deviation τ of the difference over data sets, beside what seeds explain;
            None without an interval.
    """

    mean: float
    interval: MeanInterval
    p: float | None
    spread: float | None


def random_effects(
    means: Sequence[float],
    variances: Sequence[float],
    confidence: float = 0.95,
    scale: float | None = None,
) -> RandomEffects:
    """The mean over k data sets and its interval.

    A data set whose runs show no spread beyond rounding is given the smallest spread of the others:
    that few runs agree does not make their mean exact.

    Args:
        means: [k] y.
        variances: [k] v, the squared standard errors of the means.
        confidence: of the interval.
        scale: size of the numbers the means were computed from; by default their own.
    """
    from scipy.special import stdtr, stdtrit  # deferred: importing scipy takes long

    check_confidence(confidence)
    y, v = checked_values(means), checked_values(variances)
    if len(y) != len(v) or bool((v < 0).any()):
        raise NumericalError(
            f"{len(y)} means with the variances {v.tolist()} were given; every mean needs one, "
            "and none is below zero."
        )
    k = len(y)
    size = float(np.abs(y).max()) if scale is None else scale
    v = np.where(np.sqrt(v) <= max(FLAT * size, VANISHING), 0.0, v)
    v = np.maximum(v, v[v > 0].min(initial=math.inf)) if bool((v > 0).any()) else v
    reason = "one data set says nothing about others, no interval" if k < 2 else ""
    if not reason and not v.any() and is_flat(y, size):
        reason = f"all {k} data sets agree without any spread, no interval"
    if reason:
        interval = MeanInterval(k, float(y.mean()), None, None, confidence, METHOD, reason)
        return RandomEffects(float(y.mean()), interval, None, None)
    between = _paule_mandel(y, v)
    weights = 1 / (v + between)
    mean = _weighted(y, weights)
    scatter = max(1.0, _squares(y, weights) / (k - 1))
    error = math.sqrt(scatter / float(weights.sum()))
    half = float(stdtrit(k - 1, (1 + confidence) / 2)) * error
    p = min(1.0, 2 * float(stdtr(k - 1, -abs(mean / error))))
    interval = MeanInterval(k, mean, mean - half, mean + half, confidence, METHOD)
    return RandomEffects(mean, interval, p, math.sqrt(between))


def _paule_mandel(y: NDArray[np.float64], v: NDArray[np.float64]) -> float:
    """τ² ≥ 0."""
    from scipy.optimize import brentq

    expected = len(y) - 1

    def excess(between: float) -> float:
        return _squares(y, 1 / (v + between)) - expected

    # squares around the weighted mean are at most those around any other, Σ(y − ȳ)²/τ²
    largest = float(np.var(y, ddof=1))
    if not v.any():
        return largest
    if excess(0.0) <= 0:
        return 0.0
    if excess(largest) >= 0:  # by rounding, where v is small beside it
        return largest
    return float(brentq(excess, 0.0, largest, xtol=1e-15 * largest, rtol=1e-12, maxiter=500))


def _weighted(y: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float((weights * y).sum() / weights.sum())


def _squares(y: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float((weights * (y - _weighted(y, weights)) ** 2).sum())
