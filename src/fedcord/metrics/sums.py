"""An evaluation as sums over examples, so that parts evaluated apart add up to the same numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedcord.core.errors import ProtocolError, shown
from fedcord.core.params import LARGEST
from fedcord.core.tensors import Tensors
from fedcord.metrics.calibration import BINS as CALIBRATION_BINS
from fedcord.metrics.calibration import CalibrationBin, calibration_error
from fedcord.metrics.per_class import ClassCounts, balanced_accuracy, macro_f1, macro_precision
from fedcord.metrics.ranking import Ranked, ScoreHistogram, macro

K = TypeVar("K")
V = TypeVar("V")
Confusion = Mapping[tuple[int, int], int]
"""(class, class it was answered with) to examples."""

CODES, COUNTS = "scores.codes", "scores.counts"
"""Names of the histogram's tensors in a reply."""


@dataclass(frozen=True)
class Detail:
    """What to count beside what is always counted.

    Attributes:
        confusion: which classes are taken for which.
        scores: histograms, for AUROC and average precision.
    """

    confusion: bool = False
    scores: bool = False

    def options(self) -> dict[str, bool]:
        """As a parcel holds it; what is not asked for takes no bytes."""
        asked = {"confusion": self.confusion, "scores": self.scores}
        return {name: True for name, is_asked in asked.items() if is_asked}

    @staticmethod
    def of(options: Mapping[str, Any]) -> Detail:
        """The inverse of `options`."""
        return Detail(options.get("confusion") is True, options.get("scores") is True)


@dataclass(frozen=True)
class Evaluation:
    """Sums over examples.

    Attributes:
        correct: examples whose highest score is their label.
        total: examples seen.
        loss_sum: summed cross-entropy of the scores.
        groups: (group name, group number) to (correct, total).
        by_rule: correct examples by name of the rule, where the algorithm answers by several.
        by_class: counts of every class that has examples or answers; empty where somebody keeps
            them secret.
        calibration: by bin of the answer's probability.
        confusion: None where nobody asked.
        scores: None where nobody asked.
    """

    correct: int = 0
    total: int = 0
    loss_sum: float = 0.0
    groups: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    by_rule: Mapping[str, int] = field(default_factory=dict)
    by_class: Mapping[int, ClassCounts] = field(default_factory=dict)
    calibration: Mapping[int, CalibrationBin] = field(default_factory=dict)
    confusion: Confusion | None = None
    scores: ScoreHistogram | None = None

    def __add__(self, other: Evaluation) -> Evaluation:
        groups = {
            key: (ours[0] + theirs[0], ours[1] + theirs[1])
            for key, ours, theirs in _both(self.groups, other.groups, (0, 0))
        }
        return Evaluation(
            self.correct + other.correct,
            self.total + other.total,
            self.loss_sum + other.loss_sum,
            groups,
            {rule: a + b for rule, a, b in _both(self.by_rule, other.by_rule, 0)},
            _classes(self, other),
            {b: x + y for b, x, y in _both(self.calibration, other.calibration, CalibrationBin())},
            _confusions(self, other),
            _histograms(self, other),
        )

    @property
    def accuracy(self) -> float:
        """Share of correct examples; there must be some."""
        return self.correct / self.total

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean recall of the classes there are; None where they are secret."""
        return balanced_accuracy(self.by_class.values())

    @property
    def loss(self) -> float:
        """Mean cross-entropy; there must be examples."""
        return self.loss_sum / self.total

    def metrics(self, num_classes: int) -> dict[str, float]:
        """By name, every number that these sums have; there must be examples."""
        classes = list(self.by_class.values())
        found = {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "macro_precision": macro_precision(classes),
            "macro_f1": macro_f1(classes),
            **{name: own.value for name, own in self.ranked(num_classes).items()},
            "log_loss": self.loss if math.isfinite(self.loss) else None,
            "calibration_error": calibration_error(self.calibration),
        }
        return {name: value for name, value in found.items() if value is not None}

    def ranked(self, num_classes: int) -> dict[str, Ranked]:
        """AUROC and average precision with their bounds, where they were asked for."""
        if self.scores is None:
            return {}
        found = {
            "auroc": macro(self.scores.auroc(), num_classes, is_symmetric=True),
            "average_precision": macro(
                self.scores.average_precision(), num_classes, is_symmetric=False
            ),
        }
        return {name: own for name, own in found.items() if own is not None}

    def without_classes(self) -> Evaluation:
        """What a place may tell that does not tell how many examples of each class it has."""
        return replace(self, by_class={}, confusion=None, scores=None)

    def group_accuracy(self) -> dict[str, dict[int, float]]:
        """Accuracy per group number for every group name."""
        out: dict[str, dict[int, float]] = {}
        for (name, number), (correct, total) in sorted(self.groups.items()):
            out.setdefault(name, {})[number] = correct / total
        return out

    def rule_accuracy(self) -> dict[str, float]:
        """Accuracy by each rule, the one that counts first; empty where there is one rule only."""
        return {rule: correct / self.total for rule, correct in self.by_rule.items()}

    def plain(self) -> dict[str, Any]:
        """All but the histogram as values that JSON can hold."""
        values: dict[str, Any] = {
            "correct": self.correct,
            "total": self.total,
            "loss_sum": _sayable(self.loss_sum),
            "groups": [[name, number, *counts] for (name, number), counts in self.groups.items()],
            "by_rule": dict(self.by_rule),
            "by_class": [[c, n.correct, n.total, n.answered] for c, n in self.by_class.items()],
            "calibration": [
                [b, n.total, n.correct, _sayable(n.probability_sum)]
                for b, n in self.calibration.items()
            ],
        }
        if self.confusion is not None:
            values["confusion"] = [[*classes, n] for classes, n in self.confusion.items()]
        return values

    def tensors(self) -> dict[str, Tensor]:
        """The histogram as tensors, which take fewer bytes than text; empty where there is none."""
        if self.scores is None:
            return {}
        return {
            CODES: torch.from_numpy(self.scores.codes),
            COUNTS: torch.from_numpy(self.scores.counts).int(),
        }

    @staticmethod
    def from_plain(values: Mapping[str, Any], tensors: Tensors | None = None) -> Evaluation:
        """What `plain` and `tensors` were made from; sums that cannot be sums are a ProtocolError.

        A loss that was not finite is NaN.
        """
        try:
            return _read(values, tensors or {})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"an evaluation's sums are not sound ({error}).") from error


def _both(one: Mapping[K, V], two: Mapping[K, V], nothing: V) -> list[tuple[K, V, V]]:
    """Keys of either, those of the first in their order, with both values."""
    keys = [*one, *(key for key in two if key not in one)]
    return [(key, one.get(key, nothing), two.get(key, nothing)) for key in keys]


def _classes(one: Evaluation, two: Evaluation) -> dict[int, ClassCounts]:
    """Secret once a part is secret, unless that part is empty."""
    if any(part.total and not part.by_class for part in (one, two)):
        return {}
    return {c: a + b for c, a, b in _both(one.by_class, two.by_class, ClassCounts())}


def _confusions(one: Evaluation, two: Evaluation) -> Confusion | None:
    """Unknown once a part is unknown, unless that part is empty."""
    parts = [part.confusion for part in (one, two) if part.total]
    if not parts or None in parts:
        return None
    known = [part or {} for part in parts]
    return {k: a + b for k, a, b in _both(known[0], known[1] if len(known) > 1 else {}, 0)}


def _histograms(one: Evaluation, two: Evaluation) -> ScoreHistogram | None:
    parts = [part.scores for part in (one, two) if part.total]
    first, *rest = parts or [None]
    for second in rest:
        first = None if first is None or second is None else first + second
    return first


def _sayable(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read(values: Mapping[str, Any], tensors: Tensors) -> Evaluation:
    correct, total = _whole(values["correct"]), _whole(values["total"])
    groups = {
        (str(name), _whole(number)): (_whole(c, n), _whole(n))
        for name, number, c, n in values["groups"]
    }
    by_class = {
        _whole(label): ClassCounts(_whole(c, min(n, a)), _whole(n, total), _whole(a, total))
        for label, c, n, a in values["by_class"]
    }
    calibration = {
        _whole(b, CALIBRATION_BINS - 1): CalibrationBin(_whole(n, total), _whole(c, n), _sum(p, n))
        for b, n, c, p in values["calibration"]
    }
    confusion = None
    if "confusion" in values:
        confusion = {(_whole(a), _whole(b)): _whole(n) for a, b, n in values["confusion"]}
        _check_sum("the confusion matrix", sum(confusion.values()), total)
    if by_class:
        own = list(by_class.values())
        _check_sum("classes", sum(counts.total for counts in own), total)
        _check_sum("right answers of classes", sum(counts.correct for counts in own), correct)
    _check_sum("bins of probability", sum(own.total for own in calibration.values()), total)
    by_rule = {str(rule): _whole(c, total) for rule, c in values["by_rule"].items()}
    loss_sum = _sum(values["loss_sum"])
    histogram = _read_histogram(tensors, total) if CODES in tensors else None
    return Evaluation(
        correct, total, loss_sum, groups, by_rule, by_class, calibration, confusion, histogram
    )


def _read_histogram(tensors: Tensors, total: int) -> ScoreHistogram:
    codes, counts = tensors[CODES], tensors[COUNTS]
    if codes.dtype != torch.int64 or counts.dtype != torch.int32 or codes.dim() != 1:
        raise ValueError("a histogram of scores is not of whole numbers")
    if codes.shape != counts.shape:
        raise ValueError(f"{len(codes)} bins of scores have {len(counts)} counts")
    histogram = ScoreHistogram(codes.numpy(), counts.numpy().astype(np.int64))
    is_ascending = bool((np.diff(histogram.codes) > 0).all()) and bool((codes >= 0).all())
    if not is_ascending or bool((counts < 1).any()) or bool((counts > total).any()):
        raise ValueError("a histogram of scores counts what cannot be")
    return histogram


def _whole(value: object, at_most: int = LARGEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= at_most:
        raise ValueError(f"{shown(value)} is not a whole number from 0 to {at_most}")
    return value


def _sum(value: object, at_most: float = math.inf) -> float:
    """A sum of numbers that are not negative; NaN where it was not finite."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a number")
    if not 0 <= value <= at_most * (1 + 1e-9):
        raise ValueError(f"{shown(value)} is not between 0 and {at_most}")
    return float(value)


def _check_sum(what: str, found: int, total: int) -> None:
    if found != total:
        raise ValueError(f"{what} add up to {found}, not {total}")
