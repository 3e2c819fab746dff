"""Whether probabilities mean what they say, from sums in bins of the answer's probability.

The expected calibration error of Naeini, Cooper and Hauskrecht (2015) in the form of Guo et al.
(2017): bins of equal width, |share correct - mean probability| in each, weighted by its examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

BINS = 15
"""The customary number; more bins find more error in the same answers."""
FINEST = 2.0**32
"""Probabilities are rounded to multiples of 1 / FINEST: sums of millions of them are then exact and
come out the same however the examples are divided."""


@dataclass(frozen=True)
class CalibrationBin:
    """Examples whose answer has about the same probability.

    Attributes:
        total: how many.
        correct: of them answered rightly.
        probability_sum: of the answers' probabilities.
    """

    total: int = 0
    correct: int = 0
    probability_sum: float = 0.0

    def __add__(self, other: CalibrationBin) -> CalibrationBin:
        return CalibrationBin(
            self.total + other.total,
            self.correct + other.correct,
            self.probability_sum + other.probability_sum,
        )


def calibration_bins(top: Tensor, hits: Tensor) -> dict[int, CalibrationBin]:
    """Examples sorted into bins (b/15, (b+1)/15] by their answer's probability.

    Args:
        top: [N] the probabilities of the answers, as doubles.
        hits: [N] whether the answer is right.
    """
    top = (top * FINEST).round() / FINEST
    places = (top * BINS).ceil().long().clamp(1, BINS) - 1
    totals = places.bincount(minlength=BINS).tolist()
    correct = places[hits].bincount(minlength=BINS).tolist()
    sums = places.bincount(weights=top, minlength=BINS).tolist()
    return {b: CalibrationBin(totals[b], correct[b], sums[b]) for b in range(BINS) if totals[b]}


def calibration_error(bins: Mapping[int, CalibrationBin]) -> float | None:
    """The weighted mean distance; None without examples, or where a probability was no number."""
    total = sum(own.total for own in bins.values())
    gaps = [abs(own.correct - own.probability_sum) for own in bins.values()]
    found = math.fsum(gaps) / total if total else math.nan
    return min(1.0, found) if math.isfinite(found) else None
