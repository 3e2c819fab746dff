"""Whether a difference is shown to be small: two one-sided tests (Schuirmann 1987).

That a test finds no difference does not show that there is none. Here the burden is turned round:
the mean difference is shown to lie within ±margin if both "it is below −margin" and "it is above
margin" are rejected at the level α, which is when the interval of confidence 1 − 2α lies within.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcord.core.errors import ConfigError
from fedcord.statistics.intervals import MeanInterval, checked_values
from fedcord.statistics.stratified import error_of_mean, stratified_difference

LEVEL = 0.05


@dataclass(frozen=True)
class Equivalence:
    """What pairs say about a mean difference being small.

    Attributes:
        mean: the mean difference.
        interval: of confidence 1 − 2α; may be absent.
        p: the larger p of the two one-sided tests; None where no test was possible.
        margin: what was called small.
    """

    mean: float
    interval: MeanInterval
    p: float | None
    margin: float

    @property
    def is_shown(self) -> bool:
        """Whether the difference is shown to be within the margin."""
        return self.p is not None and self.p < LEVEL


def equivalence(
    strata: Sequence[Sequence[float]], margin: float, scale: float | None = None
) -> Equivalence:
    """Two one-sided t tests of the mean over studies, each of the same weight.

    Args:
        strata: for each of S independent studies the differences [n] of its pairs.
        margin: in the unit of the differences.
        scale: size of the numbers the differences were computed from; by default their own.
    """
    from scipy.special import stdtr  # deferred: importing scipy takes long

    if not (math.isfinite(margin) and margin > 0):
        raise ConfigError(f"a margin of {margin:g} was given; it must be above zero.")
    found = stratified_difference(strata, confidence=1 - 2 * LEVEL, scale=scale)
    if not found.interval.has_interval:
        return Equivalence(found.mean, found.interval, None, margin)
    values = [checked_values(own) for own in strata]
    error, freedom = error_of_mean(values, np.ones(len(values)))
    p = float(stdtr(freedom, (abs(found.mean) - margin) / error))
    return Equivalence(found.mean, found.interval, p, margin)
