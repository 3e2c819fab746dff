"""What makes two federations alike, in numbers, and when a study is near enough to speak of one.

| measure | compared by | near up to |
|---|---|---|
| mean Jensen–Shannon distance of clients' labels to all labels | difference | 0.15 |
| Gini coefficient of clients' sizes | difference | 0.3 |
| effective number of classes of all data, over the number of classes | difference | 0.3 |
| clients; examples per client; classes | ratio | 3; 4; 2.5 |

The bounds are a judgement, not a measurement: within them the studies at hand tell the same story
(the three skews of one data set, 2,000 or 8,000 images of another), beyond them nobody has looked.
Data of another kind, and skew of another kind, are never near, whatever the numbers say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcord.data.heterogeneity import measure_heterogeneity

DIFFERENCES = {"label_skew": 0.15, "size_gini": 0.3, "class_balance": 0.3}
RATIOS = {"clients": 3.0, "examples_per_client": 4.0, "classes": 2.5}
WORDS = {
    "label_skew": "label skew",
    "size_gini": "inequality of client sizes",
    "class_balance": "balance of classes",
    "clients": "number of clients",
    "examples_per_client": "examples per client",
    "classes": "number of classes",
}

Skew = Literal["labels", "domains", "unknown"]
"""In what clients differ by construction. Labels can be counted, what inputs look like cannot: of
data that came to clients by itself (natural, file) nobody knows it."""


@dataclass(frozen=True)
class Measures:
    """A federation, as far as tables of counts know it.

    Attributes:
        kind: image, vector, text or table.
        skew: in what its clients differ by construction.
        clients: K.
        classes: C.
        examples: at all clients together.
        label_skew: mean Jensen–Shannon distance, 0 for clients alike and 1 for disjoint ones.
        size_gini: 0 for clients of equal size.
        class_balance: 1 where all classes are equally frequent over all clients.
    """

    kind: str
    skew: Skew
    clients: int
    classes: int
    examples: int
    label_skew: float
    size_gini: float
    class_balance: float

    @property
    def examples_per_client(self) -> float:
        """The mean."""
        return self.examples / self.clients


@dataclass(frozen=True)
class Distance:
    """How far a setting is from a situation.

    Attributes:
        by_measure: 1 is the bound of each; what is above it makes the setting far.
        other: why it cannot be near at all, in words; empty when it can.
    """

    by_measure: dict[str, float]
    other: str = ""

    @property
    def is_near(self) -> bool:
        """Whether every measure is within its bound."""
        return not self.other and max(self.by_measure.values()) <= 1

    @property
    def size(self) -> float:
        """Root mean square; what cannot be near is beyond everything."""
        mean = math.fsum(d * d for d in self.by_measure.values()) / len(self.by_measure)
        return math.sqrt(mean) + (1e6 if self.other else 0)

    @property
    def too_far_in(self) -> list[str]:
        """The measures beyond their bound, in words, the worst first."""
        far = sorted((-d, name) for name, d in self.by_measure.items() if d > 1)
        return ([self.other] if self.other else []) + [WORDS[name] for _, name in far]


def measures_of(counts: NDArray[np.int64], kind: str, partition: str) -> Measures:
    """A federation from its client × class table [K, C].

    Args:
        counts: as `Partition.counts` gives them.
        kind: of the data set.
        partition: its specification.
    """
    report = measure_heterogeneity(counts)
    shares = counts.sum(axis=0) / counts.sum()
    held = shares[shares > 0]
    effective = 2.0 ** float(-(held * np.log2(held)).sum())
    return Measures(
        kind=kind,
        skew=_skew_of(partition),
        clients=report.num_clients,
        classes=report.num_classes,
        examples=report.num_held,
        label_skew=report.mean_jensen_shannon,
        size_gini=report.size_gini,
        class_balance=effective / report.num_classes,
    )


def _skew_of(partition: str) -> Skew:
    name = partition.partition(":")[0].partition(",")[0]
    if name == "domain":
        return "domains"
    return "unknown" if name in ("natural", "file") else "labels"


def distance(one: Measures, other: Measures) -> Distance:
    """How far apart two federations are."""
    parts = {
        name: abs(getattr(one, name) - getattr(other, name)) / bound
        for name, bound in DIFFERENCES.items()
    }
    for name, bound in RATIOS.items():
        ratio = getattr(one, name) / getattr(other, name)
        parts[name] = abs(math.log(ratio)) / math.log(bound)
    return Distance(parts, _why_never(one, other))


def _why_never(one: Measures, other: Measures) -> str:
    if one.kind != other.kind:
        return f"kind of data ({other.kind}, not {one.kind})"
    if {one.skew, other.skew} == {"labels", "domains"}:
        return f"kind of skew (of {other.skew}, not of {one.skew})"
    return ""
