"""What a finished run says about its model beside the accuracy, as plain values."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedcord.core.contract import ClientId
from fedcord.core.errors import ProtocolError
from fedcord.metrics.per_class import ClassCounts
from fedcord.metrics.registry import METRICS, find_metric
from fedcord.metrics.sums import Confusion, Detail, Evaluation

MOST_CLASSES_RANKED = 20
"""Up to so many classes AUROC and average precision are measured of every finished run; of more,
where they were asked for: a histogram of scores per class is what costs."""
MOST_CLASSES_CONFUSED = 200
"""Up to so many classes the result holds a confusion matrix; of more it would dwarf the rest."""


def detail_of_rounds(metric: str) -> Detail:
    """What evaluations between rounds count: as little as the chosen metric needs."""
    return Detail(scores=find_metric(metric).needs_scores)


def detail_of_result(metric: str, num_classes: int) -> Detail:
    """What is counted once, of the final model."""
    is_asked = find_metric(metric).needs_scores
    return Detail(
        confusion=num_classes <= MOST_CLASSES_CONFUSED,
        scores=is_asked or num_classes <= MOST_CLASSES_RANKED,
    )


def measured_record(
    metric: str,
    tested: Evaluation,
    clients: Mapping[str, Mapping[str, Any]],
    class_names: Sequence[str],
) -> dict[str, Any]:
    """The part of `result.json` about metrics.

    Args:
        metric: what the run was asked about.
        tested: of the final model on what the accuracy is measured on.
        clients: from `over_clients`.
        class_names: [C].
    """
    size = len(class_names)
    unknown = [label for label in tested.by_class if label >= size]
    unknown += [label for pair in tested.confusion or () for label in pair if label >= size]
    if unknown:
        raise ProtocolError(f"an evaluation counts class {unknown[0]} of {size}; run it again.")
    record: dict[str, Any] = {
        "metric": metric,
        "metrics": tested.metrics(size) | metrics_of_clients(clients),
        "metric_errors": {name: own.error for name, own in tested.ranked(size).items()},
        "classes": _classes(tested, class_names),
    }
    if tested.confusion is not None:
        record["confusion_matrix"] = _matrix(tested.confusion, size)
    return record


def _classes(tested: Evaluation, names: Sequence[str]) -> list[dict[str, Any]]:
    """One entry per class, in their order."""
    auroc, precision = {}, {}
    if tested.scores is not None:
        auroc, precision = tested.scores.auroc(), tested.scores.average_precision()
    entries = []
    for label, name in enumerate(names):
        own = tested.by_class.get(label, ClassCounts())
        entry: dict[str, Any] = {
            "name": name,
            "examples": own.total,
            "answers": own.answered,
            "precision": own.precision if own.answered else None,
            "recall": own.recall if own.total else None,
            "f1": own.f1 if own.total or own.answered else None,
        }
        if label in auroc:
            entry |= {"auroc": auroc[label].value, "average_precision": precision[label].value}
        entries.append(entry)
    return entries


def _matrix(confusion: Confusion, size: int) -> list[list[int]]:
    """[C, C] examples, by the class they are of and then by the class they were answered with."""
    return [[confusion.get((truth, answer), 0) for answer in range(size)] for truth in range(size)]


def metrics_of_clients(clients: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The metrics that are about how clients' accuracies differ, from `over_clients`."""
    accuracy = clients.get("accuracy", {})
    found = {
        "client_accuracy": accuracy.get("mean"),
        "worst_client": accuracy.get("worst"),
        "client_deviation": accuracy.get("standard_deviation"),
    }
    return {name: value for name, value in found.items() if value is not None}


def by_metric(
    local: Mapping[ClientId, Evaluation], num_classes: int
) -> dict[str, dict[ClientId, float]]:
    """What clients' own test parts say, metric by metric."""
    found: dict[str, dict[ClientId, float]] = {}
    for client, sums in local.items():
        for name, value in sums.metrics(num_classes).items():
            found.setdefault(name, {})[client] = value
    return found


def over_clients(
    values_by_metric: Mapping[str, Mapping[ClientId, float]], num_clients: int
) -> dict[str, dict[str, Any]]:
    """By metric, how it differs over the clients whose own test part has it."""
    found = {}
    for name, values in values_by_metric.items():
        worst = min(values, key=lambda k: (METRICS[name].sign * values[k], k))
        # the bad end of the scale, whichever it is
        tail = 10 if METRICS[name].is_higher_better else 90
        found[name] = {
            "clients": len(values),
            "mean": statistics.fmean(values.values()),
            "standard_deviation": statistics.pstdev(values.values()),
            "worst": values[worst],
            "worst_client": worst,
            "worst_tenth": float(np.percentile(list(values.values()), tail)),
            "by_client": [values.get(k) for k in range(num_clients)],
        }
    return found
