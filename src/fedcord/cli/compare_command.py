"""`fedcord compare ALGO… --seeds N` or `fedcord compare STUDY.toml`."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_flags,
    add_run_flags,
    find_own_modules,
    place_from,
    settings_from,
    workers_from,
)
from fedcord.core.errors import CheckpointError, ConfigError, PairingError, gather
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.experiment.compare import Study
    from fedcord.experiment.study_runs import Failure

RUNS = Path("runs")
DEFAULT_SEEDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "algorithms", nargs="+", metavar="ALGO|STUDY.toml", help="algorithms, or one study file"
    )
    parser.add_argument("--seeds", metavar="N", help=f"number of seeds (default {DEFAULT_SEEDS})")
    parser.add_argument(
        "--jobs", metavar="N", help="runs at a time, in processes of one thread (default: cores)"
    )
    add_data_flags(parser)
    add_run_flags(parser)


def execute(arguments: argparse.Namespace) -> int:
    """All runs of the study, then leaderboard and page; 1 if a run or the page is missing."""
    from fedcord.experiment.config import engine_problems

    problems = engine_problems(arguments.engine, workers_from(arguments))
    with gather(problems):
        study = _study(arguments)
    if problems:
        raise ConfigError(problems)

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.study_runs import run_study

    root = arguments.out or RUNS / study.name
    place = place_from(arguments, root)
    total = len(study.runs())
    with RunBars(arguments.json or arguments.quiet, total) as bars:
        loading = functools.cache(lambda: bars.loading("data"))  # a bar only if it is needed
        failures = run_study(
            study,
            root,
            place,
            bars.study(),
            on_download=lambda held, total: loading()(held, total),
            jobs=None if arguments.jobs is None else parse_value(arguments.jobs),
        )
    return show_study(root, failures, total, arguments.json)


def show_study(root: Path, failures: Sequence[Failure], total: int, as_json: bool) -> int:
    """What came out of a study; 1 if a run or the page is missing."""
    code = _show(root, failures, as_json)
    if failures:
        sys.stderr.writelines(f"failed: {failure}\n" for failure in failures)
        sys.stderr.write(
            f"error: {len(failures)} of {total} runs have no result, for the reasons above. "
            "--resume leaves those that failed as they are, --retry-failed tries them again.\n"
        )
    return 1 if failures else code


def _study(arguments: argparse.Namespace) -> Study:
    from fedcord.experiment.compare import load_study, make_study, named_in

    settings = settings_from(arguments)
    names = arguments.algorithms
    seeds = None if arguments.seeds is None else parse_value(arguments.seeds)
    files = [name for name in names if name.endswith(".toml")]
    if not files:
        find_own_modules(names)
        seeds = DEFAULT_SEEDS if seeds is None else seeds
        return make_study(names, settings, seeds, arguments.assignments)
    if len(names) > 1:
        raise ConfigError(f"give one study file or algorithms, not both: {', '.join(names)}.")
    if seeds is not None:
        settings["seeds"] = seeds
    find_own_modules(named_in(Path(files[0])))  # who runs a study runs what it names
    return load_study(Path(files[0]), settings, arguments.assignments)


def _show(root: Path, failures: Sequence[Failure], as_json: bool) -> int:
    from rich.console import Console

    from fedcord.report.build import build_report
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs
    from fedcord.report.terminal import print_leaderboard

    board, page, missing = None, None, ""
    try:
        board = leaderboard(load_runs(root))
        page = str(build_report(root).html)
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
