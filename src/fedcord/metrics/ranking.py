"""AUROC and average precision from histograms, which add up where lists of scores would not.

Both are about order: is the probability of a class higher for its own examples than for others?
They are no sums over examples, and in a deployment no example's score may leave its place. So each
place counts, for every class, its own and the other examples in fixed fine bins of the class's
log-odds; counts add up. Order within a bin is lost. What that can change at most is computed from
the same counts and told with the number (`Ranked.error`): it is no estimate but a bound.

The bins are equal steps of asinh(20 × log-odds against guessing). Scores of a ridge regression lie
near zero, where a step is 0.00007; logits of a network reach far out, where it is 0.13 % of their
size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Codes = NDArray[np.int64]

BINS = 16_384
FINENESS = 20.0
"""Below 1 / 20 log-odds are told apart by their difference, above by their ratio."""
REACH = 11.0
"""asinh of the largest told apart: log-odds of 1,496, twice what a double's probability holds."""


def score_codes(scores: Tensor, labels: Tensor) -> Codes:
    """[N * C] for every example and class: class, bin, and whether the example is of the class.

    Args:
        scores: [N, C], of which softmax makes probabilities.
        labels: [N].
    """
    num_classes = scores.shape[1]
    odds = _log_odds(scores.double()) + math.log(max(num_classes - 1, 1))
    odds = odds.nan_to_num(nan=0.0)  # scores that are not finite rank nowhere
    steps = ((FINENESS * odds).asinh() + REACH) * (BINS / (2 * REACH))
    bins = steps.floor().long().clamp(0, BINS - 1)  # [N, C]
    classes = torch.arange(num_classes)
    codes = (classes * BINS + bins) * 2 + (classes == labels[:, None])
    found: Codes = codes.reshape(-1).numpy()
    return found


def _log_odds(scores: Tensor) -> Tensor:
    """Ln p/(1 - p) of every class; accurate also where p is 1 but for rounding."""
    log_p = scores.log_softmax(dim=1)
    odds = log_p - torch.log(-torch.expm1(log_p))
    top = scores.argmax(dim=1, keepdim=True)
    others = scores.scatter(1, top, -math.inf).logsumexp(dim=1, keepdim=True)
    return odds.scatter(1, top, scores.gather(1, top) - others)


@dataclass(frozen=True)
class Ranked:
    """A number about order, and how far binning can have moved it.

    Attributes:
        value: from the histogram.
        error: the number from the scores themselves is at most this far away.
    """

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Counts by class, bin and membership; only what is not zero is kept.

    Attributes:
        codes: [M], ascending; see `score_codes`.
        counts: [M], of examples.
    """

    codes: Codes
    counts: Codes

    @staticmethod
    def of(codes: Iterable[Codes]) -> ScoreHistogram:
        """Of all examples whose codes these are."""
        return ScoreHistogram(*np.unique(np.concatenate(list(codes)), return_counts=True))

    def __add__(self, other: ScoreHistogram) -> ScoreHistogram:
        codes, places = np.unique(np.concatenate([self.codes, other.codes]), return_inverse=True)
        counts = np.zeros(len(codes), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        return ScoreHistogram(codes, counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ScoreHistogram)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.counts, other.counts)
        )

    def auroc(self) -> dict[int, Ranked]:
        """By class, for those that have examples and others beside them."""
        return {label: _auroc(*counts) for label, counts in self._by_class().items()}

    def average_precision(self) -> dict[int, Ranked]:
        """By class, for those that have examples and others beside them."""
        return {label: _average_precision(*counts) for label, counts in self._by_class().items()}

    def _by_class(self) -> dict[int, tuple[Codes, Codes]]:
        """For every class that can be ranked, own and other examples in ascending bins."""
        found = {}
        labels = self.codes // (2 * BINS)
        for label in np.unique(labels).tolist():
            inside = labels == label
            own = self.codes[inside] % 2 == 1
            bins = self.codes[inside] // 2
            used, places = np.unique(bins, return_inverse=True)
            counts = np.zeros((2, len(used)), dtype=np.int64)
            np.add.at(counts, (own.astype(np.int64), places), self.counts[inside])
            if counts[0].any() and counts[1].any():
                found[label] = counts[1], counts[0]
        return found


def macro(by_class: Mapping[int, Ranked], num_classes: int, *, is_symmetric: bool) -> Ranked | None:
    """One number for all classes.

    Args:
        by_class: what is known of each.
        num_classes: C; of two classes the second is the positive one.
        is_symmetric: whether two classes have the same number anyway.
    """
    if num_classes == 2 and not is_symmetric:
        return by_class.get(1)
    if not by_class:
        return None
    values = list(by_class.values())
    return Ranked(
        math.fsum(own.value for own in values) / len(values),
        math.fsum(own.error for own in values) / len(values),
    )


def _auroc(own: Codes, others: Codes) -> Ranked:
    """Pairs in the right order, those within a bin counted half, which is as wrong as it can be."""
    n, q = own.astype(np.float64), others.astype(np.float64)
    pairs = n.sum() * q.sum()
    right, within = (n * (q.cumsum() - q)).sum(), (n * q).sum()
    return Ranked(float((right + within / 2) / pairs), float(within / 2 / pairs))


def _average_precision(own: Codes, others: Codes) -> Ranked:
    """Precision at the end of each bin, weighted by the examples of the class that are in it.

    Of the n examples of the class in a bin, with T of the class and F others in higher bins and q
    others in this one, the i-th is found at a precision of at least (T + i) / (T + i + F + q) and,
    where scores tie, at most (T + n) / (T + n + F).
    """
    n, q = own[::-1].astype(np.float64), others[::-1].astype(np.float64)  # from the highest bin
    above, false_above = n.cumsum() - n, q.cumsum() - q
    value = (n * (above + n) / np.maximum(above + n + false_above + q, 1)).sum() / n.sum()
    high = (n * (above + n) / np.maximum(above + n + false_above, 1)).sum() / n.sum()
    wrong = false_above + q
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(n.sum() + q.sum()) + 1))])
    start = (above + wrong).astype(np.int64)
    reciprocals = harmonic[start + n.astype(np.int64)] - harmonic[start]
    low = (n - wrong * reciprocals).sum() / n.sum()
    return Ranked(float(value), float(max(high - value, value - low, 0.0)))
