"""The two calls most scripts need: `run` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import algorithm_name
from fedcord.core.contract import Algorithm
from fedcord.core.params import plain
from fedcord.data.dataset import Dataset
from fedcord.experiment.compare import make_study, run_study
from fedcord.experiment.load import OWN_DATA, load_config
from fedcord.experiment.run import Place, new_run_folder
from fedcord.experiment.run import run as run_config
from fedcord.report.build import build_report
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs

RUNS = Path("runs")


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes:
        leaderboard: one row per contender, best first.
        root: the study's folder.
        report: the page to look at.
    """

    leaderboard: Leaderboard
    root: Path
    report: Path


def run(
    algorithm: str | Algorithm = "fedavg",
    *,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Run one algorithm and return what `result.json` holds.

    Args:
        algorithm: a name of `fedcord list algorithms`, or an object of your own.
        dataset: a name, or your own data.
        out: the run folder; by default a new one under `runs/`.
        engine: sequential, processes or wire.
        resume: go on with what `out` holds.
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
    folder = new_run_folder(RUNS, config) if out is None else Path(out)
    data = dataset if isinstance(dataset, Dataset) else None
    return run_config(config, Place(folder, engine, resume), dataset=data)


def compare(
    algorithms: Sequence[str],
    *,
    seeds: int = 3,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
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
        assignments: `key=value` for all, `NAME:key=value` for one, as for `--set`.
        settings: any other field of RunConfig.
    """
    if isinstance(settings.get("model"), str):
        settings["model"] = (settings["model"],)
    values = {**settings, "dataset": _dataset_name(dataset)}
    study = make_study(algorithms, values, seeds, assignments)
    root = RUNS / study.name if out is None else Path(out)
    data = dataset if isinstance(dataset, Dataset) else None
    run_study(study, root, Place(root, engine, resume), dataset=data)
    paths = build_report(root)
    return Comparison(leaderboard(load_runs(root)), root, paths.html)


def _name(algorithm: str | Algorithm) -> tuple[str, dict[str, Any]]:
    if isinstance(algorithm, str):
        return algorithm, {}
    return algorithm_name(algorithm), plain(algorithm)


def _dataset_name(dataset: str | Dataset) -> str:
    """Own data is known by its name; it needs no place in the registry."""
    return dataset if isinstance(dataset, str) else OWN_DATA + dataset.name
