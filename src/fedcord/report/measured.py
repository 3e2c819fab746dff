"""What a finished run measured beside its accuracy, read from `result.json`.

Older versions measured less: what can be told from what they wrote is, and the rest is missing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import CheckpointError
from fedcord.metrics.registry import METRICS
from fedcord.report.fields import LARGEST, Fields

OLD_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "log_loss": "loss",
    "client_accuracy": "client_accuracy_mean",
}
"""Metrics that results have always had, and under which name."""


@dataclass(frozen=True)
class Dispersion:
    """How one metric differs over the clients that have a test part of their own.

    Attributes:
        mean: over clients.
        worst: of the client that is worst off.
        worst_tenth: nine of ten clients are at least as well off.
        deviation: standard deviation over clients.
    """

    mean: float
    worst: float
    worst_tenth: float
    deviation: float


@dataclass(frozen=True)
class ClassScores:
    """One class; None where there is nothing to judge by.

    Attributes:
        name: of the class.
        examples: in the test.
        precision: share of its answers that are right.
        recall: share of its examples that are recognised.
        f1: harmonic mean of the two.
        auroc: of the class against the rest; None where it was not measured.
        average_precision: likewise.
    """

    name: str
    examples: int
    precision: float | None
    recall: float | None
    f1: float | None
    auroc: float | None
    average_precision: float | None


@dataclass(frozen=True, eq=False)
class Measured:
    """All that was measured of one final model.

    Attributes:
        values: by name of the metric.
        errors: by name, how far a metric can be from its exact value; exact where it is not named.
        asked: the metric the run was asked about; None for older runs.
        classes: one entry per class; empty for older runs.
        confusion: [C, C] examples by class and answer; None where it was not counted.
        clients: by metric, how clients differ.
        by_client: [K] accuracy of each client on its own test part; None where it has none.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    asked: str | None = None
    classes: tuple[ClassScores, ...] = ()
    confusion: NDArray[np.int64] | None = None
    clients: Mapping[str, Dispersion] = field(default_factory=dict)
    by_client: tuple[float | None, ...] = ()


def read_measured(reader: Fields) -> Measured:
    """Of a finished run's `result.json`."""
    by_client = reader.shares_or_none("client_accuracy")
    own = tuple(share for share in by_client if share is not None)
    clients = _clients(reader)
    if own and "accuracy" not in clients:
        clients["accuracy"] = _dispersion(own)
    values = _old_values(reader, clients.get("accuracy"))
    values |= read_values(Fields(reader.path, reader.table("metrics")))
    classes = tuple(_class(reader, entry) for entry in reader.entries("classes"))
    return Measured(
        values,
        {name: error for name, error in _numbers(reader, "metric_errors").items() if error >= 0},
        reader.text_or_none("metric"),
        classes,
        _confusion(reader, len(classes)),
        clients,
        by_client,
    )


def read_values(reader: Fields) -> dict[str, float]:
    """By name, the metrics of a table that has other entries, too."""
    found = {}
    for name in reader.values.keys() & METRICS.keys():
        share = METRICS[name].is_share
        value = reader.share_or_none(name) if share else reader.number_or_none(name)
        if value is not None:
            found[name] = value
    return found


def _old_values(reader: Fields, clients: Dispersion | None) -> dict[str, float]:
    known = {name: reader.values.get(old) for name, old in OLD_NAMES.items()}
    values = read_values(Fields(reader.path, known))
    if clients is not None:
        values |= {"worst_client": clients.worst, "client_deviation": clients.deviation}
    return values


def _dispersion(values: Sequence[float]) -> Dispersion:
    return Dispersion(
        statistics.fmean(values),
        min(values),
        float(np.percentile(values, 10)),
        statistics.pstdev(values),
    )


def _clients(reader: Fields) -> dict[str, Dispersion]:
    found = {}
    table = Fields(reader.path, reader.table("client_metrics"))
    for name in table.values.keys() & METRICS.keys():
        own = Fields(reader.path, table.table(name))
        keys = ("mean", "worst", "worst_tenth", "standard_deviation")
        found[name] = Dispersion(*(own.number(key) for key in keys))
    return found


def _numbers(reader: Fields, key: str) -> dict[str, float]:
    inner = Fields(reader.path, reader.table(key))
    found = {str(name): inner.number_or_none(name) for name in inner.values}
    return {name: value for name, value in found.items() if value is not None}


def _class(reader: Fields, entry: Any) -> ClassScores:
    if not isinstance(entry, Mapping):
        raise reader.wrong("classes")
    own = Fields(reader.path, entry)
    shares = ("precision", "recall", "f1", "auroc", "average_precision")
    try:
        return ClassScores(
            own.text("name"), own.whole("examples"), *(own.share_or_none(key) for key in shares)
        )
    except CheckpointError as error:
        raise reader.wrong("classes") from error


def _confusion(reader: Fields, size: int) -> NDArray[np.int64] | None:
    if reader.values.get("confusion_matrix") is None:
        return None
    try:
        matrix = np.asarray(reader.entries("confusion_matrix"))
    except (TypeError, ValueError, OverflowError) as error:
        raise reader.wrong("confusion_matrix") from error
    is_counts = matrix.shape == (size, size) and matrix.dtype.kind == "i"
    if not is_counts or (matrix < 0).any() or (matrix >= LARGEST).any():
        raise reader.wrong("confusion_matrix")
    return matrix.astype(np.int64)
