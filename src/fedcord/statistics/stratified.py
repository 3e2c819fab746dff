"""One paired difference over several studies, each of which has its own level and spread."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import PairingError
from fedcord.statistics.intervals import MeanInterval, check_confidence, checked_values, is_flat
from fedcord.statistics.tests import PairedDifference, sign_flip_p


def stratified_difference(
    strata: Sequence[Sequence[float]],
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
    scale: float | None = None,
) -> PairedDifference:
    """The mean of the studies' mean differences, by default every study with the same weight.

    How much studies differ from each other is not counted as noise: the statement is about these
    studies, not about others (see `random_effects`). The standard error is √(Σ w² s²/n) / Σ w from
    each study's own spread s, with Satterthwaite's degrees of freedom. For one study it is the
    paired t test. Pairs of different studies must be independent; with seeds of their own they are.

    Args:
        strata: for each of S studies the differences [n] of its pairs.
        confidence: of the interval.
        weights: [S] w of the studies; by default 1.
        scale: size of the numbers the differences were computed from; by default their own.
    """
    from scipy.special import stdtr, stdtrit  # deferred: importing scipy takes long

    check_confidence(confidence)
    if not strata:
        raise PairingError("there is no study to take the mean over; name at least one.")
    values = [checked_values(own) for own in strata]
    w = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    n, mean = sum(map(len, values)), float(np.average([own.mean() for own in values], weights=w))
    everything = np.concatenate(values)
    is_balanced = len({len(own) for own in values}) == 1 and len(set(w.tolist())) == 1
    flip_p = sign_flip_p(everything) if is_balanced else None
    size = float(np.abs(everything).max()) if scale is None else scale
    reason = ""
    if min(map(len, values)) < 2:
        reason = "a study with n = 1 has no spread, no interval"
    elif all(is_flat(own, size) for own in values):
        reason = "no study's differences have any spread, no interval"
    if reason:
        interval = MeanInterval(n, mean, None, None, confidence, "Student t", reason)
        return PairedDifference(n, mean, interval, None, flip_p, None, reason)
    error, freedom = error_of_mean(values, w)
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    interval = MeanInterval(n, mean, mean - half, mean + half, confidence, "Student t")
    p = min(1.0, 2 * float(stdtr(freedom, -abs(mean / error))))
    return PairedDifference(n, mean, interval, p, flip_p, None)


def error_of_mean(
    strata: Sequence[NDArray[np.float64]], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Standard error of the weighted mean of means, and Satterthwaite's degrees of freedom.

    Args:
        strata: S arrays, each of at least two values, not all without spread.
        weights: [S].
    """
    parts = weights**2 * np.array([own.var(ddof=1) / len(own) for own in strata])
    freedom = parts.sum() ** 2 / sum(
        part**2 / (len(own) - 1) for part, own in zip(parts, strata, strict=True)
    )
    return math.sqrt(parts.sum()) / float(weights.sum()), float(freedom)
