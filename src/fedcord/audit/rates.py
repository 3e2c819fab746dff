"""How well an attack tells members from others: 0.5 is blind guessing.

The area under the ROC curve is the chance that a member gets a higher score than somebody who is
none. Its interval is by DeLong, DeLong and Clarke-Pearson (1988): the variance of the means of
placement values. An attack that is right about few but surely is seen in the share of members found
when one in a hundred others is taken for one (Carlini et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

FALSE_ALARMS = 0.01
"""Share of non-members that may be taken for members."""
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Rates:
    """Of one attack, on one client or over several.

    Attributes:
        auc: area under the ROC curve.
        low: of its 95 % interval.
        high: of it.
        found: share of members found at one false alarm in a hundred.
        accuracy: balanced, if the half with the higher scores is taken for members.
        clients: over how many the numbers are means.
        candidates: how many samples were judged.
    """

    auc: float
    low: float
    high: float
    found: float
    accuracy: float
    clients: int
    candidates: int


def attack_rates(scores: NDArray[np.float64], is_member: NDArray[np.bool_]) -> Rates:
    """Of scores [N] that are higher for members; equal scores are guesses."""
    inside, outside = scores[is_member], scores[~is_member]
    placed_in = _share_below(inside, outside)
    placed_out = 1 - _share_below(outside, inside)
    auc = float(placed_in.mean())
    spread = math.sqrt(_mean_variance(placed_in) + _mean_variance(placed_out))
    ranks = rankdata(scores)
    middle = float(np.median(ranks))
    says_member = (ranks > middle) + 0.5 * (ranks == middle)
    right = says_member[is_member].mean() + 1 - says_member[~is_member].mean()
    return Rates(
        auc,
        max(0.0, auc - NORMAL_95 * spread),
        min(1.0, auc + NORMAL_95 * spread),
        _found(inside, outside),
        float(right) / 2,
        1,
        len(scores),
    )


def mean_rates(of_clients: Sequence[Rates]) -> Rates:
    """Over clients, each counted once; candidates of one are not those of another."""
    count = len(of_clients)
    auc = sum(r.auc for r in of_clients) / count
    # an end at 0 or 1 was cut off there, so the longer side is the whole one
    halves = [max(r.auc - r.low, r.high - r.auc) for r in of_clients]
    spread = math.sqrt(sum(half**2 for half in halves)) / count
    return Rates(
        auc,
        max(0.0, auc - spread),
        min(1.0, auc + spread),
        sum(r.found for r in of_clients) / count,
        sum(r.accuracy for r in of_clients) / count,
        sum(r.clients for r in of_clients),
        sum(r.candidates for r in of_clients),
    )


@dataclass(frozen=True)
class Limit:
    """What no attack on a private release can exceed, however much it knows about all others."""

    auc: float
    found: float


def gaussian_limit(noise: float) -> Limit:
    """Of Gaussian noise, in units of how far one sample moves what is released.

    The two hypotheses are normal distributions 1/noise apart, and no test beats the likelihood
    ratio (Dong, Roth and Su 2022).
    """
    gap = 1 / noise
    auc = float(ndtr(gap / math.sqrt(2)))
    return Limit(auc, float(ndtr(ndtri(FALSE_ALARMS) + gap)))


def _share_below(scores: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each score the share of others that is lower, equal ones counted half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, scores, side="left")
    up_to = np.searchsorted(ordered, scores, side="right")
    return (below + up_to) / (2 * len(others))


def _mean_variance(values: NDArray[np.float64]) -> float:
    return float(values.var(ddof=1)) / len(values)


def _found(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    """Share of members above all but the allowed others; with fewer than 100 others, above all."""
    allowed = math.floor(FALSE_ALARMS * len(outside))
    bar = np.sort(outside)[len(outside) - 1 - allowed]
    return float((inside > bar).mean())
