"""The two calls most scripts need: `run` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import algorithm_name
from fedcord.core.contract import Algorithm
from fedcord.core.errors import FailedRunError
from fedcord.core.params import plain
from fedcord.data.dataset import Dataset
from fedcord.experiment.compare import Failure, make_study, run_study
from fedcord.experiment.folders import RUNS
from fedcord.experiment.load import OWN_DATA, load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_config
from fedcord.report.build import build_report
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes:
        leaderboard: one row per contender, best first.
        root: the study's folder.
        report: the page to look at.
        failed: runs that have no result, and why.
    """

    leaderboard: Leaderboard
    root: Path
    report: Path
    failed: tuple[Failure, ...] = ()


def run(
    algorithm: str | Algorithm = "fedavg",
    *,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
    retry_failed: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Run one algorithm and return what `result.json` holds.

    Args:
        algorithm: a name of `fedcord list algorithms`, or an object of your own.
        dataset: a name, or your own data.
        out: the run folder; by default a new one under `runs/`.
        engine: sequential, processes or wire.
        resume: go on with what `out` holds.
        retry_failed: as `resume`, and also go on with a run that has failed.
        settings: any other field of RunConfig, such as partition, clients, rounds, seed, and
            `params` for the algorithm's parameters.

    Example:
        >>> result = run("fedprox", rounds=2, params={"local": {"lr": 0.1}})  # doctest: +SKIP
    """
    name, own = _name(algorithm)
    values = {**settings, "algorithm": name, "dataset": _dataset_name(dataset)}
    if own:
        values["params"] = own
    if isinstance(values.get("model"), str):
        values["model"] = (values["model"],)
    config = load_config(values)
    folder = None if out is None else Path(out)
    data = dataset if isinstance(dataset, Dataset) else None
    place = Place(folder, engine, resume or retry_failed, retry_failed=retry_failed)
    return run_config(config, place, dataset=data)


def compare(
    algorithms: Sequence[str],
    *,
    seeds: int = 3,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
    retry_failed: bool = False,
    assignments: Sequence[str] = (),
    **settings: Any,
) -> Comparison:
    """Run several algorithms on the same partitions and seeds, and write the report.

    Args:
        algorithms: names of `fedcord list algorithms`.
        seeds: how many, counted up from `seed`.
        dataset: a name, or your own data.
        out: the study's folder; by default one under `runs/` named after its content.
        engine: sequential, processes or wire.
        resume: go on with what the folder holds.
        retry_failed: as `resume`, and also go on with runs that have failed.
        assignments: `key=value` for all, `NAME:key=value` for one, as for `--set`.
        settings: any other field of RunConfig.
    """
    if isinstance(settings.get("model"), str):
        settings["model"] = (settings["model"],)
    values = {**settings, "dataset": _dataset_name(dataset)}
    study = make_study(algorithms, values, seeds, assignments)
    root = RUNS / study.name if out is None else Path(out)
    data = dataset if isinstance(dataset, Dataset) else None
    place = Place(root, engine, resume or retry_failed, retry_failed=retry_failed)
    failed = run_study(study, root, place, dataset=data)
    if len(failed) == len(study.runs()):
        raise FailedRunError(f"all {len(failed)} runs failed; the first is {failed[0]}")
    paths = build_report(root)
    return Comparison(leaderboard(load_runs(root)), root, paths.html, tuple(failed))


def _name(algorithm: str | Algorithm) -> tuple[str, dict[str, Any]]:
    if isinstance(algorithm, str):
        return algorithm, {}
    return algorithm_name(algorithm), plain(algorithm)


def _dataset_name(dataset: str | Dataset) -> str:
    """Own data is known by its name; it needs no place in the registry."""
    return dataset if isinstance(dataset, str) else OWN_DATA + dataset.name
