"""Which run of a study goes next, and how long the rest will take.

The biggest go first: whoever begins with the small ones has one core at a big one in the end, and
nothing for the others to do.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from fedcord.experiment.config import RunConfig


def estimated_cost(config: RunConfig, num_weights: int) -> float:
    """Rounds × clients' share × epochs × weights, in no unit; the data is the same for a study."""
    epochs = max(1.0, _epochs(config.params))
    rounds, shares = config.rounds or 1, config.participation
    if isinstance(shares, tuple):  # the rounds after those given are like the last
        visited = sum(shares[:rounds]) + max(0, rounds - len(shares)) * shares[-1]
    else:
        visited = rounds * shares
    return visited * epochs * max(1, num_weights)


def _epochs(params: Mapping[str, Any]) -> float:
    """All parameters of that name, wherever they stand: each is a phase of training."""
    own = params.get("epochs")
    total = float(own) if isinstance(own, int | float) else 0.0
    return total + sum(_epochs(part) for part in params.values() if isinstance(part, Mapping))


class JobOrder:
    """What is known and guessed about how long the runs of each contender take.

    Args:
        costs: by label, as `estimated_cost` says; measured seconds win over it.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        self._costs = costs
        self._seconds: dict[str, list[float]] = {}

    def measured(self, label: str, seconds: float) -> None:
        """A run of this contender has taken so long."""
        self._seconds.setdefault(label, []).append(seconds)

    @property
    def is_measured(self) -> bool:
        """Whether `expected` is in seconds."""
        return bool(self._seconds)

    def expected(self, label: str) -> float:
        """Of one run: the mean of its other seeds, or else its cost at the others' pace."""
        if label in self._seconds:
            return statistics.fmean(self._seconds[label])
        return self._costs[label] * self._pace()

    def _pace(self) -> float:
        """Seconds per cost; 1 as long as nobody knows."""
        known = [statistics.fmean(s) / self._costs[label] for label, s in self._seconds.items()]
        return statistics.median(known) if known else 1.0

    def seconds_left(
        self, waiting: Iterable[str], running: Iterable[tuple[str, float]], jobs: int
    ) -> float:
        """Of all, spread over the jobs; never less than the longest of those that run.

        Args:
            waiting: labels of runs to come.
            running: (label, seconds since it began) of runs under way.
            jobs: how many at a time.
        """
        rest = [max(0.0, self.expected(label) - spent) for label, spent in running]
        total = sum(map(self.expected, waiting)) + sum(rest)
        return max([total / jobs, *rest])
