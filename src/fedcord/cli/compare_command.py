"""`fedcord compare ALGO… --seeds N` or `fedcord compare STUDY.toml`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_data_flags, add_run_flags, settings_from, workers_from
from fedcord.core.errors import CheckpointError, ConfigError, PairingError

if TYPE_CHECKING:
    from fedcord.experiment.compare import Failure, Study
    from fedcord.experiment.config import RunConfig

RUNS = Path("runs")
DEFAULT_SEEDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "algorithms", nargs="+", metavar="ALGO|STUDY.toml", help="algorithms, or one study file"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="N", help=f"number of seeds (default {DEFAULT_SEEDS})"
    )
    add_data_flags(parser)
    add_run_flags(parser)


def execute(arguments: argparse.Namespace) -> int:
    """All runs of the study, then leaderboard and page; 1 if a run or the page is missing."""
    study = _study(arguments)

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.compare import run_study
    from fedcord.experiment.run import Place, Progress

    root = arguments.out or RUNS / study.name
    place = Place(
        root,
        arguments.engine,
        arguments.resume or arguments.retry_failed,
        workers_from(arguments),
        arguments.data_dir,
        arguments.download,
        arguments.reuse,
        arguments.retry_failed,
    )
    total = len(study.runs())
    with RunBars(arguments.json or arguments.quiet, total) as bars:
        number = 0

        def watch(label: str, config: RunConfig) -> Progress:
            nonlocal number
            if number:
                bars.run_done()
            number += 1
            return bars.watch(label, config.seed)

        failures = run_study(study, root, place, watch)
    code = _show(root, failures, arguments.json)
    if failures:
        sys.stderr.writelines(f"failed: {failure}\n" for failure in failures)
        sys.stderr.write(
            f"error: {len(failures)} of {total} runs have no result; the reasons are in their "
            "failure.json. --resume leaves them so, --retry-failed tries them again.\n"
        )
    return 1 if failures else code


def _study(arguments: argparse.Namespace) -> Study:
    from fedcord.experiment.compare import load_study, make_study

    settings = settings_from(arguments)
    names = arguments.algorithms
    files = [name for name in names if name.endswith(".toml")]
    if not files:
        seeds = DEFAULT_SEEDS if arguments.seeds is None else arguments.seeds
        return make_study(names, settings, seeds, arguments.assignments)
    if len(names) > 1:
        raise ConfigError(f"give one study file or algorithms, not both: {', '.join(names)}.")
    if arguments.seeds is not None:
        settings["seeds"] = arguments.seeds
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
