"""Accuracy and loss from sums, so that parts evaluated apart add up to the same numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.core.contract import Algorithm, Env
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.tensors import Tensors

T = TypeVar("T")
Counts = Mapping[T, tuple[int, int]]

BATCH = 250
"""Examples per prediction: large enough to amortise calls, small enough to stay in cache."""


@dataclass(frozen=True)
class Evaluation:
    """Sums over examples.

    Attributes:
        correct: examples whose highest score is their label.
        total: examples seen.
        loss_sum: summed cross-entropy of the scores.
        groups: (group name, group number) to (correct, total).
        by_rule: correct examples by name of the rule, where the algorithm answers by several.
        by_class: class to (correct, total); empty where nobody asked.
    """

    correct: int = 0
    total: int = 0
    loss_sum: float = 0.0
    groups: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    by_rule: Mapping[str, int] = field(default_factory=dict)
    by_class: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __add__(self, other: Evaluation) -> Evaluation:
        by_rule = dict(self.by_rule)
        for rule, correct in other.by_rule.items():
            by_rule[rule] = by_rule.get(rule, 0) + correct
        return Evaluation(
            self.correct + other.correct,
            self.total + other.total,
            self.loss_sum + other.loss_sum,
            _added(self.groups, other.groups),
            by_rule,
            _added(self.by_class, other.by_class),
        )

    @property
    def accuracy(self) -> float:
        """Share of correct examples; there must be some."""
        return self.correct / self.total

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes there are of the share of each that is recognised."""
        shares = [correct / total for correct, total in self.by_class.values()]
        return math.fsum(shares) / len(shares)

    @property
    def loss(self) -> float:
        """Mean cross-entropy; there must be examples."""
        return self.loss_sum / self.total

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
        """As values that JSON can hold; the inverse of `from_plain`."""
        return {
            "correct": self.correct,
            "total": self.total,
            "loss_sum": self.loss_sum if math.isfinite(self.loss_sum) else None,
            "groups": [[name, number, *counts] for (name, number), counts in self.groups.items()],
            "by_rule": dict(self.by_rule),
            "by_class": [[label, *counts] for label, counts in self.by_class.items()],
        }

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> Evaluation:
        """What `plain` was made from; a loss that was not finite is NaN."""
        groups = {(name, number): (c, n) for name, number, c, n in values["groups"]}
        by_class = {label: (c, n) for label, c, n in values["by_class"]}
        correct, total, loss_sum = values["correct"], values["total"], values["loss_sum"]
        loss_sum = math.nan if loss_sum is None else loss_sum
        return Evaluation(correct, total, loss_sum, groups, values["by_rule"], by_class)


def evaluate(
    algorithm: Algorithm,
    shared: Tensors,
    memory: Tensors,
    examples: Examples,
    env: Env,
    groups: Mapping[str, Tensor] | None = None,
    first: int = 0,
    last: int | None = None,
) -> Evaluation:
    """Predict examples `first` to `last` in batches and count.

    The batches are cut at fixed places, so that any division of the range into whole batches gives
    the same sums.
    """
    out = Evaluation()
    stop = len(examples) if last is None else last
    predictor = algorithm.predictor(shared, memory, env)
    several = predictor.scores_by_rule
    for start in range(first, stop, BATCH):
        chosen = slice(start, min(start + BATCH, stop))
        inputs = env.task.prepare(examples.inputs[chosen]).to(env.task.device)
        labels = examples.labels[chosen]
        with torch.inference_mode():
            found = {"": predictor.scores(inputs)} if several is None else several(inputs)
        answers = {rule: scores.cpu() for rule, scores in found.items()}
        for scores in answers.values():
            _check_scores(scores, len(labels), env)
        scores = next(iter(answers.values()))
        hits = scores.argmax(dim=1) == labels
        out += Evaluation(
            int(hits.sum()),
            len(labels),
            float(F.cross_entropy(scores.double(), labels, reduction="sum")),
            _count_groups(hits, {n: g[chosen] for n, g in (groups or {}).items()}),
            {r: int((s.argmax(dim=1) == labels).sum()) for r, s in answers.items() if several},
            _count_classes(hits, labels),
        )
    return out


def _added(one: Counts[T], two: Counts[T]) -> dict[T, tuple[int, int]]:
    """(correct, total) of both, by key."""
    out = dict(one)
    for key, (correct, total) in two.items():
        before = out.get(key, (0, 0))
        out[key] = (before[0] + correct, before[1] + total)
    return out


def _check_scores(scores: Tensor, num_examples: int, env: Env) -> None:
    expected = (num_examples, env.task.num_classes)
    if tuple(scores.shape) != expected:
        raise ProtocolError(
            f"the predictor returned shape {list(scores.shape)}, expected {list(expected)} "
            "(one score per example and class)."
        )
    if bool(torch.isnan(scores).any()):
        raise NumericalError(
            f"the predictor returned NaN in round {env.round}; lower the learning rate."
        )


def _count_classes(hits: Tensor, labels: Tensor) -> dict[int, tuple[int, int]]:
    totals = labels.bincount().tolist()
    correct = labels[hits].bincount(minlength=len(totals)).tolist()
    return {label: (correct[label], total) for label, total in enumerate(totals) if total}


def _count_groups(
    hits: Tensor, groups: Mapping[str, Tensor]
) -> dict[tuple[str, int], tuple[int, int]]:
    counts = {}
    for name, numbers in groups.items():
        for number in numbers.unique().tolist():
            inside = numbers == number
            counts[(name, number)] = (int(hits[inside].sum()), int(inside.sum()))
    return counts
