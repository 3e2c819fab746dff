"""Which runs a leaderboard compares: those of the same clients, by name, on the seeds all have."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from fedcord.core.errors import CheckpointError, PairingError
from fedcord.report.load import Result, Run
from fedcord.report.numbers import counted, percent

ROW_SETTINGS = (
    "algorithm",
    "dataset",
    "partition",
    "clients",
    "rounds",
    "model",
    "participation",
    "subset",
    "longtail",
    "validation",
    "test",
    "attack",
    "test_views",
    "params",
)
"""Settings in which the seeds of one row must agree, or they are not repetitions of one thing."""


def with_the_same_clients(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Runs to compare, and what to say of those that clients have left or joined afterwards.

    Where all runs have forgotten the same clients they are compared like any others, and likewise
    where the same have joined.
    """

    def changed(run: Run) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return ((), ()) if run.result is None else (run.result.forgotten, run.result.joined)

    groups = sorted(
        {changed(run) for run in runs if run.is_finished}, key=lambda g: len(sum(g, ()))
    )
    if len(groups) < 2:
        return list(runs), []
    kept = [run for run in runs if changed(run) == groups[0] or not run.is_finished]
    others = [run for run in runs if run not in kept]
    return kept, [
        f"{run.name}, seed {run.seed} ({percent(result_of(run).accuracy)} %), is left out: it was "
        f"made by '{'join' if result_of(run).joined else 'forget'}', and the other runs hold other "
        "clients."
        for run in others
    ]


def ended_by_name(runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """Runs that are finished or have failed."""
    by_name: dict[str, dict[int, Run]] = {}
    for run in runs:
        if not run.is_finished and run.failure is None:
            continue
        own = by_name.setdefault(run.name, {})
        if run.seed in own:
            raise PairingError(
                f"{run.name} has two runs for seed {run.seed}: {own[run.seed].folder} and "
                f"{run.folder}; keep one of them, or report the folders separately."
            )
        for other in itertools.islice(own.values(), 1):
            for key in ROW_SETTINGS:
                if run.config.get(key) != other.config.get(key):
                    raise PairingError(
                        f"the runs of {run.name} differ in '{key}': seed {other.seed} has "
                        f"{other.config.get(key)}, seed {run.seed} has {run.config.get(key)}; the "
                        "seeds of one row must repeat one setting: report them separately."
                    )
        own[run.seed] = run
    if not by_name:
        raise CheckpointError(
            f"none of {counted(len(runs), 'run')} is finished, so there is nothing to compare; "
            "continue with --resume."
        )
    return by_name


def common_seeds(by_name: Mapping[str, Mapping[int, Run]]) -> tuple[int, ...]:
    """Seeds that everybody has finished or failed."""
    common = sorted(set.intersection(*(set(own) for own in by_name.values())))
    if not common:
        having = "; ".join(
            f"{name} has {', '.join(map(str, sorted(own)))}" for name, own in by_name.items()
        )
        raise PairingError(
            f"no seed is finished by every algorithm: {having}; run all of them on the same seeds."
        )
    return tuple(common)


def result_of(run: Run) -> Result:
    """The outcome of a run that has one."""
    assert run.result is not None
    return run.result
