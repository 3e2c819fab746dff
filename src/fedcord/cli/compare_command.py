"""`fedcord compare ALGO… --seeds N` or `fedcord compare STUDY.toml`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_flags,
    add_jobs_flag,
    add_run_flags,
    find_own_modules,
    jobs_from,
    place_from,
    settings_from,
    workers_from,
)
from fedcord.cli.tuning_flags import add_tuning_flags, plan_from
from fedcord.core.errors import CheckpointError, ConfigError, PairingError, gather
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.cli.progress import RunBars
    from fedcord.experiment.compare import Study
    from fedcord.experiment.run import Place
    from fedcord.experiment.study_runs import Failure
    from fedcord.experiment.tuning import RunAll, TuningPlan
    from fedcord.experiment.workers import Workers

RUNS = Path("runs")
DEFAULT_SEEDS = 3
MOST_AHEAD = 1024
"""Of jobs and seeds; more of them are for others to judge."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "algorithms", nargs="+", metavar="ALGO|STUDY.toml", help="algorithms, or one study file"
    )
    parser.add_argument("--seeds", metavar="N", help=f"number of seeds (default {DEFAULT_SEEDS})")
    parser.add_argument(
        "--tune",
        metavar="N",
        help="first tune every contender by N trials on validation data, on seeds of its own",
    )
    add_tuning_flags(parser)
    add_jobs_flag(parser)
    add_data_flags(parser)
    add_run_flags(parser)


def execute(arguments: argparse.Namespace) -> int:
    """All runs of the study, then leaderboard and page; 1 if a run or the page is missing."""
    from fedcord.experiment.workers import Workers

    with contextlib.closing(Workers()) as workers:
        start_ahead(arguments, workers)
        return _execute(arguments, workers)


def start_ahead(arguments: argparse.Namespace, workers: Workers) -> None:
    """Start processes before this one has imported PyTorch, where runs will surely need them.

    What is not sure is left to whoever knows the study: a file, mistakes, runs that are finished.
    """
    from fedcord.algorithms.registry import ALGORITHMS
    from fedcord.engine.child import CAN_START, available_cores

    names, flags = set(arguments.algorithms), arguments
    others = flags.resume or flags.retry_failed or flags.device or flags.threads
    if others or flags.engine != "sequential" or not names <= ALGORITHMS.keys() or not CAN_START:
        return
    jobs = available_cores() if flags.jobs is None else jobs_from(flags)
    seeds = DEFAULT_SEEDS if flags.seeds is None else parse_value(flags.seeds)
    if _is_small(jobs) and _is_small(seeds):
        count = min(jobs, len(names) * seeds)
        workers.start(count if count > 1 else 0)


def _is_small(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_AHEAD


def _execute(arguments: argparse.Namespace, workers: Workers) -> int:
    from fedcord.experiment.config import engine_problems

    problems = engine_problems(arguments.engine, workers_from(arguments))
    plan: TuningPlan | None = None
    with gather(problems):
        study = study_from(arguments)
        plan = plan_from(arguments, study, arguments.tune)
    if problems:
        raise ConfigError(problems)

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.tuning import tune_study, with_chosen

    root = arguments.out or RUNS / (study.name if plan is None else plan.study_name)
    place = place_from(arguments, root)
    total = len(study.runs())
    trials = 0 if plan is None else plan.num_runs
    with RunBars(arguments.json or arguments.quiet, total + trials) as bars:
        run_all = runs_by(arguments, place, bars, workers)
        if plan is not None:
            study = with_chosen(study, tune_study(plan, root, place, run_all))
        failures = run_all(study, root)
    return show_study(root, failures, total, arguments.json, study.metric)


def runs_by(arguments: argparse.Namespace, place: Place, bars: RunBars, workers: Workers) -> RunAll:
    """How runs of a study are done below a folder: as the flags say, and shown by the bars."""
    from fedcord.experiment.study_runs import run_study

    loading = functools.cache(lambda: bars.loading("data"))  # a bar only if it is needed

    def run_all(study: Study, below: Path) -> list[Failure]:
        return run_study(
            study,
            below,
            place,
            bars.study(),
            on_download=lambda held, total: loading()(held, total),
            jobs=jobs_from(arguments),
            workers=workers,
        )

    return run_all


def show_study(
    root: Path, failures: Sequence[Failure], total: int, as_json: bool, metric: str | None = None
) -> int:
    """What came out of a study; 1 if a run or the page is missing."""
    code = _show(root, failures, metric, as_json)
    if failures:
        sys.stderr.writelines(f"failed: {failure}\n" for failure in failures)
        sys.stderr.write(
            f"error: {len(failures)} of {total} runs have no result, for the reasons above. "
            "--resume leaves those that failed as they are, --retry-failed tries them again.\n"
        )
    return 1 if failures else code


def study_from(arguments: argparse.Namespace) -> Study:
    """The study that the command line names, by algorithms or by its file."""
    from fedcord.experiment.compare import load_study, make_study, named_in

    settings = settings_from(arguments)
    names = arguments.algorithms
    seeds = None if arguments.seeds is None else parse_value(arguments.seeds)
    files = [name for name in names if name.endswith(".toml")]
    if not files:
        find_own_modules(names)
        seeds = DEFAULT_SEEDS if seeds is None else seeds
        return make_study(names, settings, seeds, arguments.assignments, metric=arguments.metric)
    if len(names) > 1:
        raise ConfigError(f"give one study file or algorithms, not both: {', '.join(names)}.")
    if seeds is not None:
        settings["seeds"] = seeds
    if arguments.metric is not None:
        settings["metric"] = arguments.metric
    find_own_modules(named_in(Path(files[0])))  # who runs a study runs what it names
    return load_study(Path(files[0]), settings, arguments.assignments)


def _show(root: Path, failures: Sequence[Failure], metric: str | None, as_json: bool) -> int:
    from rich.console import Console

    from fedcord.report.build import build_report
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs
    from fedcord.report.terminal import print_leaderboard

    board, page, missing = None, None, ""
    try:
        board = leaderboard(load_runs(root), metric)
        page = str(build_report(root, metric=metric).html)
    except ConfigError as error:
        missing = str(error)
    except (CheckpointError, PairingError) as error:
        if not failures:  # otherwise too few runs are left to compare
            raise
        missing = str(error)
    if as_json:
        failed = [dataclasses.asdict(failure) for failure in failures]
        values = {} if board is None else board.to_json()
        values |= {"report": page, "root": str(root), "failed": failed}
        sys.stdout.write(json.dumps(values) + "\n")
    elif board is not None:
        print_leaderboard(board, Console())
        if page is not None:
            sys.stdout.write(f"\nReport: {page}\n")
    if page is None:
        sys.stderr.write(f"error: no report page: {missing}\n")
    return int(page is None)
