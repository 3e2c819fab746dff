"""Paired comparison of two algorithms over the same seeds.

The t test is the headline, for it can speak with five seeds when differences are roughly normal.
The exact sign-flip test beside it assumes only that a difference is as likely to point either way,
and cannot go below 2 / 2^n: with five seeds never below 0.0625.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import PairingError
from fedcord.statistics.intervals import (
    MeanInterval,
    check_confidence,
    checked_values,
    is_flat,
    mean_interval,
    without_rounding,
)

MOST_EXACT_PAIRS = 15
"""Up to here all 2^n sign patterns are enumerated."""


@dataclass(frozen=True)
class PairedDifference:
    """What n pairs say about first minus second.

    Attributes:
        n: number of pairs.
        mean: mean difference.
        interval: the mean difference with its t interval, which may be absent.
        t_p: two-sided p of the paired t test; None when the differences have no spread.
        permutation_p: two-sided exact sign-flip p; None for one pair or more than 15.
        effect_size: Cohen's d_z, mean over standard deviation of the differences; None without
            spread. With few pairs it overstates.
        note: what cannot be said, and why; empty when everything can.
    """

    n: int
    mean: float
    interval: MeanInterval
    t_p: float | None
    permutation_p: float | None
    effect_size: float | None
    note: str = ""


def paired_difference(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    confidence: float = 0.95,
) -> PairedDifference:
    """Compare two lists of values that belong together position by position.

    Args:
        first: [n], one value per seed.
        second: [n], the other algorithm's values for the same seeds (see `pairing.pair`).
        confidence: of the interval.
    """
    from scipy.special import stdtr  # deferred: importing scipy takes longer than most reports

    a, b = checked_values(first), checked_values(second)
    check_confidence(confidence)
    if len(a) != len(b):
        raise PairingError(
            f"{len(a)} values were compared with {len(b)}; a paired comparison needs one of each "
            "per seed."
        )
    n, scale = len(a), float(max(np.abs(a).max(), np.abs(b).max()))
    differences = without_rounding(a - b, scale)
    if is_flat(differences, scale):
        return _without_spread(n, float(differences.mean()), confidence)
    interval = mean_interval(differences, confidence)
    deviation = float(differences.std(ddof=1))
    t = interval.mean / (deviation / math.sqrt(n))
    return PairedDifference(
        n=n,
        mean=interval.mean,
        interval=interval,
        t_p=min(1.0, 2 * float(stdtr(n - 1, -abs(t)))),
        permutation_p=sign_flip_p(differences),
        effect_size=interval.mean / deviation,
        note=""
        if n <= MOST_EXACT_PAIRS
        else f"n = {n}: too many pairs for the exact sign-flip test",
    )


def sign_flip_p(differences: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Share of all sign patterns whose mean is at least as far from zero as the observed one.

    Args:
        differences: [n]; None is returned for n = 1 and n > 15.
    """
    array = checked_values(differences)
    n = len(array)
    if not 1 < n <= MOST_EXACT_PAIRS:
        return None
    # the first sign stays: flipping all signs gives the same distance from zero
    patterns = np.arange(2 ** (n - 1))[:, None] >> np.arange(n - 1) & 1  # [2^(n-1), n-1]
    sums = np.abs(array[0] + (1 - 2 * patterns) @ array[1:])
    tolerance = 1e-9 * float(np.abs(array).sum())
    return float(np.mean(sums >= abs(float(array.sum())) - tolerance))


def _without_spread(n: int, mean: float, confidence: float) -> PairedDifference:
    if n == 1:
        note, permutation_p = "n = 1: one pair cannot show a difference", None
        reason = "n = 1, no interval"
    elif mean == 0:
        note, permutation_p = f"no difference in any of the {n} pairs", 1.0
        reason = f"all {n} differences are zero, no interval"
    else:
        note = f"all {n} differences are equal: no spread for a t test or an interval"
        permutation_p = 2.0 ** (1 - n) if n <= MOST_EXACT_PAIRS else None
        reason = f"all {n} differences are equal, no interval"
    interval = MeanInterval(n, mean, None, None, confidence, "Student t", reason)
    return PairedDifference(n, mean, interval, None, permutation_p, None, note)
