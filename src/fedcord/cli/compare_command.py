"""`fedcord compare ALGO… --seeds N` or `fedcord compare STUDY.toml`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_flags,
    add_run_flags,
    place_from,
    settings_from,
    workers_from,
)
from fedcord.cli.own_modules import find_own_modules
from fedcord.core.errors import ConfigError, gather
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.experiment.compare import Study
    from fedcord.report.leaderboard import Leaderboard

RUNS = Path("runs")
DEFAULT_SEEDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "algorithms", nargs="+", metavar="ALGO|STUDY.toml", help="algorithms, or one study file"
    )
    parser.add_argument("--seeds", metavar="N", help=f"number of seeds (default {DEFAULT_SEEDS})")
    add_data_flags(parser)
    add_run_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """All runs of the study, then leaderboard and page."""
    from fedcord.experiment.config import engine_problems

    problems = engine_problems(arguments.engine, workers_from(arguments))
    with gather(problems):
        study = _study(arguments)
    if problems:
        raise ConfigError(problems)

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.compare import run_study
    from fedcord.experiment.run import Progress
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs

    root = arguments.out or RUNS / study.name
    place = place_from(arguments, root)
    total = len(study.runs())
    with RunBars(arguments.json or arguments.quiet, total) as bars:
        number = 0

        def watch(label: str, config: object) -> Progress:
            nonlocal number
            if number:
                bars.run_done()
            number += 1
            return bars.watch(f"{label} seed {getattr(config, 'seed', '')}")

        run_study(study, root, place, watch)
    board = leaderboard(load_runs(root))
    _show(board, root, arguments.json)


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


def _show(board: Leaderboard, root: Path, as_json: bool) -> None:
    from rich.console import Console

    from fedcord.report.build import build_report
    from fedcord.report.terminal import print_leaderboard

    try:
        page: str | None = str(build_report(root).html)
        missing = ""
    except ConfigError as error:
        page, missing = None, str(error)
    if as_json:
        sys.stdout.write(json.dumps({**board.to_json(), "report": page, "root": str(root)}) + "\n")
        return
    print_leaderboard(board, Console())
    if page is None:
        sys.stderr.write(f"no report page: {missing}\n")
    else:
        sys.stdout.write(f"\nReport: {page}\n")
