"""From batches of scores to their sums."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.metrics.calibration import calibration_bins
from fedcord.metrics.per_class import ClassCounts
from fedcord.metrics.ranking import Codes, ScoreHistogram, score_codes
from fedcord.metrics.sums import Detail, Evaluation


class Tally:
    """Takes batch after batch; counts once, at the end, what does not depend on the order."""

    def __init__(self, num_classes: int, detail: Detail) -> None:
        self._num_classes = num_classes
        self._detail = detail
        self._loss_sum = 0.0
        self._labels: list[Tensor] = []
        self._answers: list[Tensor] = []
        self._top: list[Tensor] = []
        self._codes: list[Codes] = []
        self._by_rule: dict[str, int] = {}

    def add(self, scores: Tensor, labels: Tensor, by_rule: Mapping[str, Tensor]) -> None:
        """One batch.

        Args:
            scores: [N, C] by which it is answered.
            labels: [N].
            by_rule: the scores of every rule, where there are several.
        """
        log_p = scores.double().log_softmax(dim=1)
        self._loss_sum += float(F.nll_loss(log_p, labels, reduction="sum"))
        self._labels.append(labels)
        self._answers.append(scores.argmax(dim=1))
        self._top.append(log_p.amax(dim=1))
        if self._detail.scores:
            self._codes.append(score_codes(scores, labels))
        for rule, own in by_rule.items():
            right = int((own.argmax(dim=1) == labels).sum())
            self._by_rule[rule] = self._by_rule.get(rule, 0) + right

    def sums(self, groups: Mapping[str, Tensor]) -> Evaluation:
        """Of all batches so far.

        Args:
            groups: by name the number of each example's group, in the order of the examples.
        """
        if not self._labels:
            return Evaluation()
        labels, answers = torch.cat(self._labels), torch.cat(self._answers)
        hits = answers == labels
        size, detail = self._num_classes, self._detail
        return Evaluation(
            int(hits.sum()),
            len(labels),
            self._loss_sum,
            _count_groups(hits, groups),
            self._by_rule,
            _count_classes(hits, labels, answers, size),
            calibration_bins(torch.cat(self._top).exp(), hits),
            _count_pairs(labels, answers, size) if detail.confusion else None,
            ScoreHistogram.of(self._codes) if detail.scores else None,
        )


def _count_classes(
    hits: Tensor, labels: Tensor, answers: Tensor, num_classes: int
) -> dict[int, ClassCounts]:
    each = (labels[hits], labels, answers)
    counts = zip(*(own.bincount(minlength=num_classes).tolist() for own in each), strict=True)
    return {label: ClassCounts(*own) for label, own in enumerate(counts) if any(own)}


def _count_pairs(labels: Tensor, answers: Tensor, num_classes: int) -> dict[tuple[int, int], int]:
    pairs, counts = (labels * num_classes + answers).unique(return_counts=True)
    return {
        divmod(pair, num_classes): n
        for pair, n in zip(pairs.tolist(), counts.tolist(), strict=True)
    }


def _count_groups(
    hits: Tensor, groups: Mapping[str, Tensor]
) -> dict[tuple[str, int], tuple[int, int]]:
    counts = {}
    for name, numbers in groups.items():
        for number in numbers.unique().tolist():
            inside = numbers == number
            counts[(name, number)] = (int(hits[inside].sum()), int(inside.sum()))
    return counts
