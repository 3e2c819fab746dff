"""Intervals for a mean: Student's t, the same on the logit scale for shares, and the bootstrap.

Accuracies are shares: their intervals are bounded (`share_interval`). Differences of accuracies are
not, and roughly normal: theirs are plain Student t (`mean_interval`).

An interval the data cannot support is absent (`low` and `high` are None) and `reason` says why. A
NaN or an interval of width zero would look like knowledge in a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError, NumericalError

FLAT = 1e-12
"""Spread relative to the size of the values below which it is only rounding."""

VANISHING = 1e-150
"""Spread whose square is zero in floating point: a division by it would fail."""


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its interval.

    Attributes:
        n: how many values.
        mean: their mean.
        low: lower end, or None when no interval can be given.
        high: upper end, or None.
        confidence: of the interval, such as 0.95.
        method: "Student t", "logit t" or "BCa bootstrap".
        reason: why there is no interval; empty when there is one.
    """

    n: int
    mean: float
    low: float | None
    high: float | None
    confidence: float
    method: str
    reason: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether `low` and `high` are numbers."""
        return self.low is not None and self.high is not None


def mean_interval(
    values: Sequence[float] | NDArray[np.float64], confidence: float = 0.95
) -> MeanInterval:
    """Mean and Student-t interval, which is exact for normal values however few they are.

    Args:
        values: [n], one number per independent repetition (for a study: per seed).
        confidence: between 0 and 1.
    """
    from scipy.special import stdtrit  # deferred: importing scipy takes longer than most reports

    array = checked_values(values)
    check_confidence(confidence)
    mean, reason = float(array.mean()), _no_interval(array)
    if reason:
        return MeanInterval(len(array), mean, None, None, confidence, "Student t", reason)
    error = float(array.std(ddof=1)) / math.sqrt(len(array))
    half = float(stdtrit(len(array) - 1, (1 + confidence) / 2)) * error
    return MeanInterval(len(array), mean, mean - half, mean + half, confidence, "Student t")


def share_interval(
    values: Sequence[float] | NDArray[np.float64], confidence: float = 0.95
) -> MeanInterval:
    """Mean and an interval that stays between 0 and 1, for shares such as accuracies.

    Student's t for the logit of the mean, whose standard error is that of the mean m divided by
    m (1 - m), and back. Where values spread little it is the plain t interval. Near 0 or 1, where
    shares are skewed and the plain one would leave the scale, it is longer on the inner side and
    covers nearer to what it claims. The logit is taken of the mean, not of each value: single
    values of exactly 0 or 1 do no harm, and the interval always holds the mean that stands beside
    it. A bootstrap-t interval would need far more than the three to ten seeds there are.

    Args:
        values: [n], each from 0 to 1, one per independent repetition.
        confidence: between 0 and 1.
    """
    from scipy.special import expit, logit

    array = checked_values(values)
    if array.min() < 0 or array.max() > 1:
        raise NumericalError(
            f"values from {array.min():g} to {array.max():g} were given; shares lie between 0 and "
            "1: divide percentages by 100."
        )
    mean, reason = float(array.mean()), _no_interval(array, scale=1.0)
    if reason:
        check_confidence(confidence)
        return MeanInterval(len(array), mean, None, None, confidence, "logit t", reason)
    plain = mean_interval(array, confidence)
    assert plain.high is not None  # what spreads on the scale of shares spreads on its own
    half = (plain.high - mean) / (mean * (1 - mean))
    low, high = expit(logit(mean) + np.array([-half, half]))
    return replace(plain, low=float(low), high=float(high), method="logit t")


def bootstrap_interval(
    values: Sequence[float] | NDArray[np.float64],
    generator: np.random.Generator,
    confidence: float = 0.95,
    num_resamples: int = 9999,
) -> MeanInterval:
    """Mean and BCa bootstrap interval (Efron 1987), for values that are clearly not normal.

    With fewer than about ten values it covers less than it claims; prefer `mean_interval` there.

    Args:
        values: [n], one number per independent repetition.
        generator: where the resamples come from; equal generators give equal intervals.
        confidence: between 0 and 1.
        num_resamples: how many resamples of size n.
    """
    from scipy.special import ndtr, ndtri

    array = checked_values(values)
    check_confidence(confidence)
    n, mean, reason = len(array), float(array.mean()), _no_interval(array)
    if reason:
        return MeanInterval(n, mean, None, None, confidence, "BCa bootstrap", reason)
    means = array[generator.integers(n, size=(num_resamples, n))].mean(axis=1)  # [resamples]
    # half of the ties count as below, so that symmetric data need no correction
    below = (np.sum(means < mean) + 0.5 * np.sum(means == mean)) / num_resamples
    bias = float(ndtri(min(max(below, 1 / num_resamples), 1 - 1 / num_resamples)))
    leave_one_out = (array.sum() - array) / (n - 1)
    deviation = leave_one_out.mean() - leave_one_out
    acceleration = float(np.sum(deviation**3) / (6 * np.sum(deviation**2) ** 1.5))
    tails = ndtri(np.array([(1 - confidence) / 2, (1 + confidence) / 2])) + bias
    low, high = np.quantile(means, ndtr(bias + tails / (1 - acceleration * tails)))
    return MeanInterval(n, mean, float(low), float(high), confidence, "BCa bootstrap")


def checked_values(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The values as a vector; empty or non-finite ones are refused: nothing survives them."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise NumericalError(
            f"values of shape {list(array.shape)} were given; a statistic needs a list of at least "
            "one number."
        )
    if not np.isfinite(array).all():
        raise NumericalError(
            f"{int(np.sum(~np.isfinite(array)))} of {array.size} values are not finite; leave out "
            "the runs that diverged, and say so, before comparing."
        )
    return array


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1), such as 95 for 95 %."""
    if not 0 < confidence < 1:
        raise ConfigError(
            f"confidence {confidence} was given; it must lie between 0 and 1: write 0.95 for 95 %."
        )


def is_flat(values: NDArray[np.float64], scale: float | None = None) -> bool:
    """Whether the values differ by no more than rounding.

    Args:
        values: [n].
        scale: size of the numbers the values were computed from; by default the values' own.
    """
    size = float(np.abs(values).max()) if scale is None else scale
    return float(np.ptp(values)) <= max(FLAT * size, VANISHING)


def without_rounding(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The values [n], with zero for those that are no more than rounding.

    0.9 - 0.8 and 0.7 - 0.6 differ in the last bit.

    Args:
        values: [n].
        scale: size of the numbers the values were computed from.
    """
    return np.where(np.abs(values) <= FLAT * scale, 0.0, values)


def _no_interval(array: NDArray[np.float64], scale: float | None = None) -> str:
    if len(array) == 1:
        return "n = 1, no interval"
    if is_flat(array, scale):
        return f"all {len(array)} values are equal, no interval"
    return ""
