"""Tables of a benchmark of rounds: costs, and how they stand to what we hold ourselves to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from launch import Contender, Run
from line_up import (
    BARE,
    BARE_LOOPS,
    FLOWER,
    PFL,
    PFL_RUN,
    PFL_TWO,
    PROCESSES,
    SEQUENTIAL,
)
from tables import spread, table, verdict
from workload import SHAPES

Runs = dict[Contender, list[Run]]
Roof = dict[int, list[float]]
"""Cores to the GFLOP/s of sgemm in every repeat."""


def rounds_table(name: str, runs: Runs, roof: Roof) -> str:
    """One row per contender."""
    header = [
        "contender",
        "cores",
        "train samples/s",
        "train CPU-s/round",
        "evaluation CPU-s",
        "evaluation s",
        "round s",
        "roofline",
        "peak MB",
        "accuracy",
        "weights off by",
    ]
    reference = runs.get(BARE, next(iter(runs.values())))[0].weights
    rows = []
    for contender, done in runs.items():
        speed = [run.samples_per_second for run in done]
        ceilings = roof[contender.cores]
        shares = [
            100 * value * SHAPES[name].train_flop / (1e9 * ceiling)
            for value, ceiling in zip(speed, ceilings, strict=False)
        ]
        rows.append(
            [
                contender.name,
                str(contender.cores),
                spread(speed, 0),
                spread([run.train_cpu for run in done]),
                spread([run.eval_cpu for run in done]),
                spread([run.eval_wall for run in done]),
                spread([run.wall for run in done]),
                f"{spread(shares, 0)} %",
                spread([run.peak_bytes / 1e6 for run in done], 0),
                f"{done[-1].accuracy:.4f}",
                f"{max(float(np.abs(run.weights - reference).max()) for run in done):.0e}",
            ]
        )
    return table(header, rows)


def targets_table(name: str, runs: Runs, roof: Roof) -> str:
    """The targets of a workload."""
    rows = _cnn_targets(runs, roof) if name == "W1" else _mlp_targets(runs)
    return table(["target", "measured", "wanted", ""], rows)


def largest_difference(runs: Runs, one: Contender, other: Contender) -> float:
    """Of any final weight."""
    reference = runs[other][0].weights
    return max(float(np.abs(run.weights - reference).max()) for run in runs[one])


def _cnn_targets(runs: Runs, roof: Roof) -> list[list[str]]:
    best = _best_bare(runs, _cpu)
    name = f"sequential / {best.name}, CPU-s per round"
    rows = [verdict(name, ratios(runs, _cpu, SEQUENTIAL, best), 1.05, at_most=True)]
    speeds = ratios(runs, _speed, PROCESSES, SEQUENTIAL)
    rows.append(verdict("processes / sequential, samples/s", speeds, 1.5))
    for peer, factor in ((PFL, 1.5), (PFL_TWO, 1.5), (PFL_RUN, 1.5), (FLOWER, 2.5)):
        if peer in runs:
            label, pace = f"processes / {peer.name}", ratios(runs, _pace, PROCESSES, peer)
            speeds = ratios(runs, _speed, PROCESSES, peer)
            rows.append(verdict(f"{label}, samples/s", speeds, factor))
            rows.append(verdict(f"{label}, rounds/s", pace, factor))
    pairs = zip(runs[PROCESSES], roof[2], strict=False)
    shares = [
        run.samples_per_second * SHAPES["W1"].train_flop / (1e9 * ceiling) for run, ceiling in pairs
    ]
    return [*rows, verdict("processes / 2-core sgemm", shares, 0.55)]


def _mlp_targets(runs: Runs) -> list[list[str]]:
    best = _best_bare(runs, _train_cpu)
    costs = ratios(runs, _train_cpu, best, SEQUENTIAL)
    speeds = ratios(runs, _speed, SEQUENTIAL, best)
    return [
        verdict(f"{best.name} / stacked sequential, CPU-s of training", costs, 2.0),
        verdict(f"stacked sequential / {best.name}, samples/s", speeds, 2.0),
    ]


def ratios(
    runs: Runs, value: Callable[[Run], float], over: Contender, under: Contender
) -> list[float]:
    """Repeat by repeat, so that a slow minute hits both."""
    pairs = zip(runs[over], runs[under], strict=False)
    return [value(a) / value(b) for a, b in pairs]


def _best_bare(runs: Runs, value: Callable[[Run], float]) -> Contender:
    return min(BARE_LOOPS, key=lambda one: float(np.median([value(run) for run in runs[one]])))


def _cpu(run: Run) -> float:
    return run.cpu


def _train_cpu(run: Run) -> float:
    return run.train_cpu


def _speed(run: Run) -> float:
    return run.samples_per_second


def _pace(run: Run) -> float:
    return 1 / run.wall
