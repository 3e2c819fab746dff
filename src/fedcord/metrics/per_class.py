"""What each class's answers are worth, from three counts per class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ClassCounts:
    """One class in a test.

    Attributes:
        correct: examples of the class that were answered with it.
        total: examples of the class.
        answered: examples that were answered with it, rightly or not.
    """

    correct: int = 0
    total: int = 0
    answered: int = 0

    def __add__(self, other: ClassCounts) -> ClassCounts:
        return ClassCounts(
            self.correct + other.correct, self.total + other.total, self.answered + other.answered
        )

    @property
    def precision(self) -> float:
        """Share of its answers that are right; 0 where there are none, as scikit-learn has it."""
        return self.correct / self.answered if self.answered else 0.0

    @property
    def recall(self) -> float:
        """Share of the class that is recognised; 0 where the class has no example."""
        return self.correct / self.total if self.total else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two."""
        both = self.total + self.answered
        return 2 * self.correct / both if both else 0.0


def balanced_accuracy(classes: Iterable[ClassCounts]) -> float | None:
    """Mean recall of the classes that have examples."""
    return _mean([own.recall for own in classes if own.total])


def macro_precision(classes: Iterable[ClassCounts]) -> float | None:
    """Mean precision of the classes that have examples or answers."""
    return _mean([own.precision for own in classes if own.total or own.answered])


def macro_f1(classes: Iterable[ClassCounts]) -> float | None:
    """Mean F1 of the classes that have examples or answers."""
    return _mean([own.f1 for own in classes if own.total or own.answered])


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
