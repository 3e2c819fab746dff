"""One algorithm's line in a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcord.metrics.registry import Metric
from fedcord.report.cost import Cost
from fedcord.report.load import Failure, Run
from fedcord.report.measured import Dispersion
from fedcord.report.numbers import counted
from fedcord.report.training import DID_NOT_TRAIN
from fedcord.statistics import MeanInterval, PairedDifference

BELOW_CONSTANT = "below a constant answer"


@dataclass(frozen=True)
class Row:
    """One algorithm.

    Attributes:
        name: as the run folders name it.
        seeds: [n] those of the board's it has finished.
        failures: why it did not finish the others.
        untrained: seeds on which it did not train; see `training`.
        metric: what is compared.
        measured: by name of a metric, [n] its values in the order of its seeds; only of metrics
            that every run has.
        score: mean and interval of what is compared.
        difference: this algorithm minus the best, paired over the seeds both have; None for the
            best itself, and where there is no such seed.
        p_holm: p of the paired t test after Holm's correction over all pairs of algorithms; None
            for the best and where no test was possible.
        clients: by metric, how clients differ on their own test parts, mean over seeds.
        per_group: by kind of group (such as "domain") and part of it the accuracies [n] on that
            part, in the order of its seeds.
        bytes_up: per run, from all clients to the server, mean over seeds.
        bytes_down: per run, from the server to all clients, mean over seeds.
        seconds: per run, mean over seeds.
        cost: complete traffic and passes per run, mean over seeds.
        constant: what always answering with the largest test class reaches in what is compared,
            mean over seeds; None where test examples were not counted or there is no such level.
        num_refused: updates refused on arrival, over all seeds.
        runs: the runs behind it, in the order of its seeds.
    """

    name: str
    seeds: tuple[int, ...]
    failures: tuple[Failure, ...]
    untrained: tuple[int, ...]
    metric: Metric
    measured: Mapping[str, tuple[float, ...]]
    score: MeanInterval
    difference: PairedDifference | None
    p_holm: float | None
    clients: Mapping[str, Dispersion]
    per_group: Mapping[str, Mapping[str, tuple[float, ...]]]
    bytes_up: float
    bytes_down: float
    seconds: float
    cost: Cost
    constant: float | None
    num_refused: int
    runs: tuple[Run, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """[n] what is compared, in the order of its seeds."""
        return self.measured[self.metric.name]

    @property
    def over_clients(self) -> Dispersion | None:
        """How clients differ in what is compared, or in accuracy where that is about clients."""
        return self.clients.get("accuracy" if self.metric.over_clients else self.metric.name)

    def mean_of(self, name: str) -> float | None:
        """Mean over seeds of any metric; None where a run did not measure it."""
        return float(np.mean(self.measured[name])) if name in self.measured else None

    @property
    def num_bytes(self) -> float:
        """All traffic of one run."""
        return self.bytes_up + self.bytes_down

    @property
    def is_below_constant(self) -> bool:
        """Whether its mean is not above that of a constant answer, in what is compared."""
        return self.constant is not None and self.score.mean <= self.constant

    @property
    def mark(self) -> str:
        """What must stand beside its name wherever it is compared; empty for most."""
        marks = []
        if self.untrained:
            some = f" on {len(self.untrained)} of {counted(len(self.seeds), 'seed')}"
            marks.append(DID_NOT_TRAIN + some * (len(self.untrained) < len(self.seeds)))
        if self.is_below_constant and len(self.untrained) < len(self.seeds):
            marks.append(BELOW_CONSTANT)
        if self.failures:
            tried = counted(len(self.seeds) + len(self.failures), "seed")
            marks.append(f"failed on {len(self.failures)} of {tried}")
        return ", ".join(marks)

    @property
    def label(self) -> str:
        """Its name with the mark."""
        return f"{self.name} ({self.mark})" if self.mark else self.name

    @property
    def num_seeds(self) -> str:
        """How many seeds its numbers are over, of how many it was tried on."""
        tried = len(self.seeds) + len(self.failures)
        return f"{len(self.seeds)} of {tried}" if self.failures else str(tried)

    def to_json(self) -> dict[str, Any]:
        """As values JSON can hold, shares from 0 to 1."""
        return {
            "algorithm": self.name,
            "seeds": list(self.seeds),
            "failures": [asdict(failure) for failure in self.failures],
            "did_not_train": list(self.untrained),
            "score": asdict(self.score),
            "scores": list(self.values),
            "metrics": {name: list(values) for name, values in self.measured.items()},
            "difference": None if self.difference is None else asdict(self.difference),
            "p_holm": self.p_holm,
            "over_clients": {name: asdict(own) for name, own in self.clients.items()},
            **{
                f"per_{kind}": {part: float(np.mean(values)) for part, values in parts.items()}
                for kind, parts in self.per_group.items()
            },
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
            "cost": {**asdict(self.cost), "compute": self.cost.compute},
            "below_constant_answer": self.is_below_constant,
            "refused": self.num_refused,
        }


def shared_seeds(first: Row, second: Row) -> tuple[int, ...]:
    """Seeds that both rows have finished, ascending."""
    return tuple(sorted(set(first.seeds) & set(second.seeds)))


def over_shared_seeds(
    first: Row, second: Row, metric: Metric | None = None
) -> tuple[list[float], list[float]]:
    """Two rows' numbers on the seeds both have finished, in the same order.

    Args:
        first: a row that has the metric.
        second: likewise.
        metric: by default what the rows are compared by.
    """
    name = (metric or first.metric).name
    by_seed = [dict(zip(row.seeds, row.measured[name], strict=True)) for row in (first, second)]
    shared = shared_seeds(first, second)
    return [by_seed[0][seed] for seed in shared], [by_seed[1][seed] for seed in shared]


@dataclass(frozen=True)
class Failed:
    """An algorithm without a result on any seed.

    Attributes:
        name: as the run folders name it.
        failures: one for each seed.
    """

    name: str
    failures: tuple[Failure, ...]
