"""What most scripts need: `run`, `compare`, `resume` and `write_report`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcord.algorithms.registry import ALGORITHMS, algorithm_name, is_algorithm
from fedcord.core.contract import Algorithm
from fedcord.core.errors import ConfigError, FailedRunError, gather, shown
from fedcord.core.params import build, plain
from fedcord.data.dataset import Dataset
from fedcord.experiment.compare import Study, make_study
from fedcord.experiment.finished_run import read_finished
from fedcord.experiment.folders import RUNS
from fedcord.experiment.load import OWN_DATA, load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_config
from fedcord.experiment.search import SPREAD
from fedcord.experiment.start_from import going_on
from fedcord.experiment.study_runs import Failure, run_study
from fedcord.experiment.tuning import plan_tuning, tune_study, with_chosen
from fedcord.experiment.workers import Workers
from fedcord.metrics.registry import DEFAULT
from fedcord.report.build import build_report
from fedcord.report.leaderboard import Leaderboard, leaderboard
from fedcord.report.load import load_runs
from fedcord.store.run_folder import RunFolder

Choice = str | Algorithm | type[Any]
"""An algorithm: a name of `fedcord list algorithms`, an object, or a class with its defaults."""


@dataclass(frozen=True)
class Comparison:
    """What `compare` or `write_report` found.

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
    algorithm: Choice = "fedavg",
    *,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
    retry_failed: bool = False,
    workers: int | None = None,
    data_dirs: Sequence[Path | str] | None = None,
    download: bool = False,
    reuse: Path | str | None = None,
    metric: str = DEFAULT,
    start: Path | str | None = None,
    track: str | Sequence[str] = (),
    **settings: Any,
) -> dict[str, Any]:
    """Run one algorithm and return what `result.json` holds.

    Args:
        algorithm: a name of `fedcord list algorithms`, an object of your own, or its class.
        dataset: a name, or your own data.
        out: the run folder; by default a new one under `runs/`.
        engine: sequential, processes or wire.
        resume: go on with what `out` holds.
        retry_failed: as `resume`, and also go on with a run that has failed.
        workers: processes of the processes engine; by default one per core.
        data_dirs: folders with data sets; by default the usual places.
        download: fetch missing data from its official place.
        reuse: folder of clients' work to take from and add to.
        metric: what reports of the run are about; it is measured in every evaluated round.
        start: folder of a finished run whose state this one begins with; of the same run, `rounds`
            more.
        track: where to mirror numbers to as rounds end: "tensorboard", "mlflow", "wandb", or
            several.
        settings: any other field of RunConfig, such as partition, clients, rounds, seed, and
            `params` for the algorithm's parameters.

    Example:
        >>> result = run("fedprox", rounds=2, params={"local": {"lr": 0.1}})  # doctest: +SKIP
    """
    values = {**settings, "algorithm": _made(algorithm), "dataset": _dataset_name(dataset)}
    config = load_config(values)
    folder = None if out is None else Path(out)
    place = _place(folder, engine, resume, workers, data_dirs, download, reuse, retry_failed)
    source = None if start is None else read_finished(Path(start), place.data_dirs)
    if source is not None:
        config = going_on(config, source, settings.get("rounds"))
    own = _own_data(dataset)
    place = replace(place, metric=metric, track=_trackers(track))
    return run_config(config, place, dataset=own, start=source)


def compare(
    algorithms: Choice | Sequence[Choice] | Mapping[str, Choice],
    *,
    seeds: int = 3,
    dataset: str | Dataset = "digits",
    out: Path | str | None = None,
    engine: str = "sequential",
    resume: bool = False,
    retry_failed: bool = False,
    workers: int | None = None,
    data_dirs: Sequence[Path | str] | None = None,
    download: bool = False,
    reuse: Path | str | None = None,
    assignments: Sequence[str] = (),
    metric: str | None = None,
    tune: int | None = None,
    spaces: Sequence[str] = (),
    search: str = SPREAD,
    jobs: int | None = 1,
    track: str | Sequence[str] = (),
    **settings: Any,
) -> Comparison:
    """Run several algorithms on the same partitions and seeds, and write the report.

    Args:
        algorithms: names of `fedcord list algorithms`, objects of your own or their classes; a
            mapping gives each a label, such as `{"weak": FedProx(0.01), "strong": FedProx(1.0)}`.
        seeds: how many, counted up from `seed`.
        dataset: a name, or your own data.
        out: the study's folder; by default one under `runs/` named after its content.
        engine: sequential, processes or wire.
        resume: go on with what the folder holds.
        retry_failed: as `resume`, and also go on with runs that have failed.
        workers: processes of the processes engine; by default one per core.
        data_dirs: folders with data sets; by default the usual places.
        download: fetch missing data from its official place.
        reuse: folder of clients' work to take from and add to.
        assignments: `key=value` for all, `NAME:key=value` for one, as for `--set`.
        metric: what they are compared by, such as "balanced_accuracy"; the accuracy if nothing is
            said.
        tune: trials by which every contender is tuned first, on validation data and seeds that no
            final run has; None for none.
        spaces: `key=low:high:log` for all, `NAME:key=…` for one, as for `--space`; by default what
            algorithms declare.
        search: how trials are proposed, "spread" or "tpe".
        jobs: runs at a time, each in a process of its own; None for one per core. Algorithms that a
            script or notebook defines run in this process.
        track: where to mirror numbers to as rounds end, trials of a tuning included.
        settings: any other field of RunConfig.
    """
    problems: list[str] = []
    names, forms = _contenders(algorithms, problems)
    if problems:
        raise ConfigError(problems)
    values = {**settings, "dataset": _dataset_name(dataset)}
    texts = [assignments] if isinstance(assignments, str) else assignments
    study = make_study(names, values, seeds, texts, variants=forms, metric=metric)
    where = [spaces] if isinstance(spaces, str) else spaces
    plan = None if tune is None else plan_tuning(study, tune, where, search)
    name = study.name if plan is None else plan.study_name
    root = RUNS / name if out is None else Path(out)
    place = _place(root, engine, resume, workers, data_dirs, download, reuse, retry_failed)
    place = replace(place, track=_trackers(track))

    with contextlib.closing(Workers()) as processes:

        def run_all(study: Study, below: Path) -> list[Failure]:
            own = _own_data(dataset)
            return run_study(study, below, place, dataset=own, jobs=jobs, workers=processes)

        if plan is not None:
            study = with_chosen(study, tune_study(plan, root, place, run_all))
        failed = run_all(study, root)
    if len(failed) == len(study.runs()):
        raise FailedRunError(f"all {len(failed)} runs failed; the first is {failed[0]}")
    return replace(write_report(root, metric=metric), failed=tuple(failed))


def resume(
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    engine: str = "sequential",
    workers: int | None = None,
    data_dirs: Sequence[Path | str] | None = None,
    download: bool = False,
    reuse: Path | str | None = None,
) -> dict[str, Any]:
    """Go on with the run in `folder`, with the settings it began with, and return its result.

    A finished run is not repeated. For a study, call `compare` again with `resume=True`.

    Args:
        folder: of a run that `run` or `compare` began.
        dataset: your own data, if the run began with some.
        engine: sequential, processes or wire; it may be another than before.
        workers: processes of the processes engine; by default one per core.
        data_dirs: folders with data sets; by default the usual places.
        download: fetch missing data from its official place.
        reuse: folder of clients' work to take from and add to.
    """
    begun = RunFolder(Path(folder))
    if not begun.is_started:
        raise ConfigError(f"'{folder}' holds no run; name the folder that has its config.toml.")
    config = load_config(begun.read_config())
    if config.dataset.startswith(OWN_DATA) and dataset is None:
        raise ConfigError(f"'{folder}' began with your own data; pass it again as dataset=….")
    place = _place(begun.path, engine, True, workers, data_dirs, download, reuse)
    return run_config(config, place, dataset=dataset)


def write_report(folder: Path | str, *more: Path | str, metric: str | None = None) -> Comparison:
    """Write tables, figures and page anew from run folders; nothing is trained.

    Args:
        folder: a study's folder; the report goes there.
        more: further folders whose runs belong to the same comparison.
        metric: what to compare by; by default what the runs were asked about.
    """
    folders = [Path(folder), *map(Path, more)]
    paths = build_report(*folders, metric=metric)
    return Comparison(leaderboard(load_runs(*folders), metric), folders[0], paths.html)


def _contenders(
    algorithms: Choice | Sequence[Choice] | Mapping[str, Choice], problems: list[str]
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Names, which label themselves, and forms under labels."""
    names: list[str] = []
    forms: dict[str, dict[str, Any]] = {}
    if isinstance(algorithms, Mapping):
        for label, choice in algorithms.items():
            with gather(problems):
                forms[label] = _form(choice)
        return names, forms
    alone = isinstance(algorithms, str) or not isinstance(algorithms, Sequence)
    choices: Sequence[Any] = [algorithms] if alone else algorithms  # type: ignore[assignment]
    for choice in choices:
        if isinstance(choice, str):
            names.append(choice)
            continue
        with gather(problems):
            algorithm = _made(choice)
            label = _label(algorithm)
            if label in forms or label in names:
                problems.append(
                    f"two contenders are called {label}; give each a label of its own, such as "
                    "{'weak': FedProx(0.01), 'strong': FedProx(1.0)}."
                )
            forms[label] = _form(algorithm)
    return names, forms


def _form(choice: object) -> dict[str, Any]:
    """A contender; the parameters of an object win over those that all have in common."""
    algorithm = _made(choice)
    own = {} if isinstance(algorithm, str) else {"params": plain(algorithm)}
    return {"algorithm": algorithm, **own}


def _made(choice: object) -> Any:
    """A name as it is, or an algorithm object; a class stands for itself with its defaults."""
    if isinstance(choice, str):
        return choice
    if not is_algorithm(choice):
        raise ConfigError(
            f"{shown(choice)} is no algorithm; give a name such as 'fedavg', an object such as "
            "FedAvg(), or a list of them to compare."
        )
    return choice() if isinstance(choice, type) else choice


def _label(algorithm: Algorithm) -> str:
    """What an object is called in a comparison: its name in the table, or else its class."""
    cls, path = type(algorithm), algorithm_name(algorithm)
    forms = (name for name, info in ALGORITHMS.items() if info.path == path)
    named = (name for name in forms if build(cls, ALGORITHMS[name].preset) == algorithm)
    return next(named, cls.__name__)


def _place(
    out: Path | None,
    engine: str,
    resume: bool,
    workers: int | None,
    data_dirs: Sequence[Path | str] | None,
    download: bool,
    reuse: Path | str | None,
    retry_failed: bool = False,
) -> Place:
    if isinstance(data_dirs, str | Path):
        data_dirs = [data_dirs]
    folders = None if data_dirs is None else [Path(folder) for folder in data_dirs]
    work = None if reuse is None else Path(reuse)
    going_on = resume or retry_failed
    return Place(out, engine, going_on, workers, folders, download, work, retry_failed)


def _trackers(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _own_data(dataset: str | Dataset) -> Dataset | None:
    return dataset if isinstance(dataset, Dataset) else None


def _dataset_name(dataset: object) -> str:
    """Own data is known by its name; it needs no place in the registry."""
    if isinstance(dataset, Dataset):
        return OWN_DATA + dataset.name
    if not isinstance(dataset, str):
        raise ConfigError(
            f"dataset = {shown(dataset)}: must be a name such as 'digits', or a fedcord.Dataset "
            "made of your arrays."
        )
    return dataset
