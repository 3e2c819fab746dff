"""What a model that has learnt nothing reaches: the floor every accuracy is to be read against.

Guessing among C classes is right in 1/C of the cases whatever the test set holds. Always answering
with the largest class is right as often as that class occurs, which can be 96 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.metrics.registry import Metric
from fedcord.report.load import Run
from fedcord.report.numbers import percent

UNEQUAL = 1.05
"""Test classes are called unequal where the largest has over 5 % more examples than their mean."""


@dataclass(frozen=True)
class ConstantAnswer:
    """The floor of one test set.

    Attributes:
        num_classes: C.
        majority: share of the largest class.
        majority_class: its name.
        num_present: classes with test examples.
        counts: [C] examples that were counted.
        is_exact: whether test examples were counted; older runs tell training examples only.
    """

    num_classes: int
    majority: float
    majority_class: str
    num_present: int
    counts: tuple[int, ...]
    is_exact: bool

    @property
    def num_examples(self) -> int:
        """All that were counted."""
        return sum(self.counts)

    @property
    def chance(self) -> float:
        """Accuracy of guessing."""
        return 1 / self.num_classes

    def chance_of(self, metric: Metric) -> float | None:
        """What guessing reaches by a metric; None where there is no such level."""
        return None if metric.chance is None else metric.chance(self.counts)

    def level_of(self, metric: Metric) -> float | None:
        """What a constant answer reaches by a metric; None where there is no such level."""
        return {"accuracy": self.majority, "balanced_accuracy": self.balanced}.get(metric.name)

    @property
    def balanced(self) -> float:
        """Balanced accuracy of always answering with one class."""
        return 1 / self.num_present

    @property
    def is_unequal(self) -> bool:
        """Whether the largest class stands out."""
        return self.majority * self.num_present > UNEQUAL

    @property
    def sentence(self) -> str:
        """The floor in words."""
        counted = "" if self.is_exact else " (judged by the training examples)"
        return (
            f"Always answering '{self.majority_class}' has an accuracy of "
            f"{percent(self.majority)} %{counted} and a balanced accuracy of "
            f"{percent(self.balanced)} %; guessing has {percent(self.chance)} %."
        )


def constant_answer(run: Run) -> ConstantAnswer | None:
    """The floor of a run's test set; None where nothing is known of its classes."""
    if run.partition is None or not run.partition.is_told:
        return None
    test = run.result.test_counts if run.result is not None else ()
    counts = test if sum(test) else tuple(run.partition.counts.sum(axis=0).tolist())
    if not sum(counts):
        return None
    largest = max(counts)
    return ConstantAnswer(
        num_classes=len(counts),
        majority=largest / sum(counts),
        majority_class=run.partition.class_names[counts.index(largest)],
        num_present=sum(count > 0 for count in counts),
        counts=tuple(counts),
        is_exact=counts is test,
    )
