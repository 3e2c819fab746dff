"""The way of a method through its rounds: what it has reached, and what it has cost so far.

Complete traffic and compute are counted as in `cost`. What comes after the last round (the final
model's delivery, own models) is added to every round, as if it had been the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcord.report.load import Run
from fedcord.report.row import Row


@dataclass(frozen=True)
class Course:
    """What a method reached, at which cost, at the rounds in which every seed measured it.

    Attributes:
        rounds: [T].
        exchanged: [T] bytes that have travelled so far, mean over seeds.
        complete: [T] complete traffic, as if the round had been the last.
        compute: [T] client compute, likewise.
        values: [T] by seed the score; the last ones are the results.
    """

    rounds: tuple[int, ...]
    exchanged: tuple[float, ...]
    complete: tuple[float, ...]
    compute: tuple[float, ...]
    values: tuple[dict[int, float], ...]

    @property
    def means(self) -> tuple[float, ...]:
        """[T] of the score over seeds."""
        return tuple(float(np.mean(list(own.values()))) for own in self.values)


def course(row: Row) -> Course:
    """The course of one algorithm; empty when its seeds share no round that measured it."""
    values: dict[int, dict[int, float]] = {}
    costs: dict[int, list[tuple[float, float, float]]] = {}
    for run in row.runs:
        exchanged, passes = 0, 0
        more_bytes, more_passes = _after_rounds(run)
        for entry in run.metrics:
            exchanged += entry.bytes_up + entry.bytes_down
            passes += entry.compute
            if row.metric.name in entry.values:
                values.setdefault(entry.round, {})[run.seed] = entry.values[row.metric.name]
                spent = exchanged, exchanged + more_bytes, passes + more_passes
                costs.setdefault(entry.round, []).append(spent)
    rounds = tuple(r for r in sorted(values) if len(values[r]) == len(row.runs))
    exchanged_, complete, compute = (
        tuple(float(np.mean([spent[kind] for spent in costs[r]])) for r in rounds)
        for kind in range(3)
    )
    return Course(rounds, exchanged_, complete, compute, tuple(values[r] for r in rounds))


def _after_rounds(run: Run) -> tuple[float, float]:
    """Bytes and compute of a run that its rounds do not show, first weights taken off."""
    if run.result is None:
        return 0.0, 0.0
    cost = run.result.cost
    exchanged = sum(entry.bytes_up + entry.bytes_down for entry in run.metrics)
    computed = sum(entry.compute for entry in run.metrics)
    return (cost.bytes or exchanged) - exchanged, (cost.compute or computed) - computed
