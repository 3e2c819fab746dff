"""The runs of a study: what is missing of it is done, and what fails does not stop the rest."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcord.core.errors import ConfigError, FailedRunError
from fedcord.data.dataset import Dataset
from fedcord.data.download import Progress as DownloadProgress
from fedcord.experiment.compare import Study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.folders import check_folder
from fedcord.experiment.job import ENDS_ALL
from fedcord.experiment.job_data import can_be_handed_over
from fedcord.experiment.job_order import JobOrder, estimated_cost
from fedcord.experiment.jobs import Job, job_count, reason, run_jobs
from fedcord.experiment.news import StudyNews
from fedcord.experiment.review import review_contenders
from fedcord.experiment.run import Place, Progress, failure_record, run
from fedcord.experiment.survey import Sites
from fedcord.experiment.workers import Workers
from fedcord.models.registry import check_model
from fedcord.store.checksums import FAILURE, RESULT
from fedcord.store.plan_record import record_plan
from fedcord.store.run_folder import RunFolder

RunOne = Callable[[RunConfig, Place, Progress, Dataset | None], dict[str, Any]]
"""How one run of a study is done."""


@dataclass(frozen=True)
class Failure:
    """A run of a study that has no result.

    Attributes:
        contender: its label in the study.
        algorithm: its name.
        seed: of the run.
        error: the kind of error.
        message: why, in words.
    """

    contender: str
    algorithm: str
    seed: int
    error: str
    message: str

    def __str__(self) -> str:
        return f"{self.contender} seed {self.seed}: {self.error}: {self.message}"


def run_study(
    study: Study,
    root: Path,
    place: Place,
    news: StudyNews = StudyNews(),  # noqa: B008 - frozen
    dataset: Dataset | None = None,
    on_download: DownloadProgress | None = None,
    sites: Sites | None = None,
    run_one: RunOne | None = None,
    jobs: int | None = 1,
    workers: Workers | None = None,
) -> list[Failure]:
    """Run what is missing of a study under `root`.

    What does not fit is refused before the first run, of all contenders together. What shows only
    while one runs is a failure of that run and does not end the study. Where the data lies at
    `sites`, they say themselves what does not fit. `run_one` does a run elsewhere than here, one
    after another; otherwise `jobs` of them are done at a time (see `job_count`), with equal bits.
    A study's own metric wins over that of `place`. `workers` are processes for these, which stay
    for the next study.

    Returns:
        The runs that failed, now or before.
    """
    place = replace(place, metric=study.metric or place.metric)
    runs = [Job(label, c, root / label / f"seed-{c.seed}") for label, c in study.runs()]
    at_a_time = 1
    if sites is None and run_one is None:
        at_a_time = job_count(jobs, [job.config for job in runs], place.engine)
    for job in runs:
        with contextlib.suppress(FailedRunError):
            check_folder(
                RunFolder(job.out), job.config, resume=place.resume, retry_failed=place.retry_failed
            )
    ahead = [job for job in runs if _is_ahead(RunFolder(job.out), place)]
    contenders = {job.label: study.contenders[job.label] for job in ahead}
    _check_weights(contenders.values(), place)
    sizes: dict[str, int] = {}
    if sites is not None:
        sites = replace(sites, stated=study.stated)
    elif ahead:
        sizes = review_contenders(
            contenders,
            sorted({job.config.seed for job in ahead}),
            dataset,
            place.data_dirs,
            place.allow_download,
            on_download,
            study.stated,
        )
        RunFolder(root).create()  # one that cannot be made is no failure of a contender
    if ahead and study.plan is not None:
        RunFolder(root).create()  # data at sites: nobody has made it yet
        record_plan(root, study.plan)
    do = run_one or functools.partial(run, sites=sites)
    failed: dict[Path, Mapping[str, Any]] = {}

    def run_here(jobs: Sequence[Job]) -> None:
        for job in jobs:
            watch = news.begins(job.label, job.config).progress()
            try:
                do(job.config, replace(place, out=job.out), watch, dataset)
            except FailedRunError:  # before, and it is not to be tried again
                failed[job.out] = RunFolder(job.out).read_json(FAILURE)
            except ENDS_ALL:
                raise
            except Exception as error:
                failed[job.out] = failure_record(job.config.algorithm, job.config.seed, error)
            failure = failed.get(job.out)
            news.ends(job.label, job.config, None if failure is None else reason(failure))

    run_here([job for job in runs if job not in ahead])  # they are only looked at
    elsewhere = [] if at_a_time == 1 else _for_others(ahead, dataset, news)
    if elsewhere:
        order = JobOrder({k: estimated_cost(contenders[k], size) for k, size in sizes.items()})
        for job in runs:
            if job.label in sizes and RunFolder(job.out).is_finished:
                order.measured(job.label, float(RunFolder(job.out).read_json(RESULT)["seconds"]))
        how = place, at_a_time, order, news, dataset, workers
        for job, failure in run_jobs(elsewhere, *how):
            if failure is not None:
                failed[job.out] = failure
    run_here([job for job in ahead if job not in elsewhere])
    return [_failure(job, failed[job.out]) for job in runs if job.out in failed]


def _is_ahead(folder: RunFolder, place: Place) -> bool:
    """Whether a run is still to be made."""
    return not folder.is_finished and (place.retry_failed or not folder.has_failed)


def _check_weights(configs: Iterable[RunConfig], place: Place) -> None:
    """Refuse weights that are not there: now, not hours later when their turn comes."""
    problems = [
        problem
        for model in sorted({model for config in configs for model in config.model})
        for problem in check_model(model, data_dirs=place.data_dirs or ())
    ]
    if problems:
        raise ConfigError(problems)


def _for_others(ahead: Sequence[Job], dataset: Dataset | None, news: StudyNews) -> list[Job]:
    """The runs that other processes can do; who watches is told of the rest."""
    if len(ahead) > 1 and not can_be_handed_over(dataset):
        news.note("the data cannot be handed to other processes; all runs are done in this one.")
        return []
    elsewhere = [job for job in ahead if job.can_run_elsewhere]
    here = {job.label: None for job in ahead if job not in elsewhere}
    if here and elsewhere:
        news.note(
            f"{', '.join(here)}: defined in a script, notebook or function, where other processes "
            "cannot import it; its runs are done in this one, after the others."
        )
    return elsewhere if len(ahead) > 1 else []


def _failure(job: Job, record: Mapping[str, Any]) -> Failure:
    error, message = str(record.get("error")), str(record.get("message"))
    return Failure(job.label, job.config.algorithm, job.config.seed, error, message)
