"""`fedcord tune ALGO… --trials N`: what `compare --tune N` does before its final runs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.compare_command import RUNS, runs_by, study_from
from fedcord.cli.flags import (
    add_data_flags,
    add_jobs_flag,
    add_run_flags,
    place_from,
    workers_from,
)
from fedcord.cli.tuning_flags import add_tuning_flags, plan_from
from fedcord.core.errors import ConfigError, gather

if TYPE_CHECKING:
    from fedcord.store.tuning_file import Tuning

DEFAULT_TRIALS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "algorithms", nargs="+", metavar="ALGO|STUDY.toml", help="algorithms, or one study file"
    )
    parser.add_argument(
        "--trials", metavar="N", help=f"trials of each contender (default {DEFAULT_TRIALS})"
    )
    parser.set_defaults(seeds=None)
    add_tuning_flags(parser)
    add_jobs_flag(parser)
    add_data_flags(parser)
    add_run_flags(parser)


def execute(arguments: argparse.Namespace) -> None:
    """All trials, then what was chosen."""
    from fedcord.experiment.config import engine_problems

    problems = engine_problems(arguments.engine, workers_from(arguments))
    with gather(problems):
        study = study_from(arguments)
        plan = plan_from(arguments, study, arguments.trials, DEFAULT_TRIALS)
    if problems:
        raise ConfigError(problems)
    assert plan is not None

    from fedcord.cli.progress import RunBars
    from fedcord.experiment.tuning import tune_study
    from fedcord.experiment.workers import Workers

    root = arguments.out or RUNS / f"tune-{plan.hash[:8]}"
    place = place_from(arguments, root)
    with (
        RunBars(arguments.json or arguments.quiet, plan.num_runs) as bars,
        contextlib.closing(Workers()) as workers,
    ):
        tuning = tune_study(plan, root, place, runs_by(arguments, place, bars, workers))
    if arguments.json:
        sys.stdout.write(json.dumps({"root": str(root), **dataclasses.asdict(tuning)}) + "\n")
        return
    _show(tuning, root)


def _show(tuning: Tuning, root: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    from fedcord.report.terminal import plain_table
    from fedcord.report.tuning import entries, trials_table, tuning_lines, tuning_sentence

    known, console = entries(tuning), Console()
    console.print(plain_table(*trials_table(known, "\n")))
    for line in tuning_lines(known):
        console.print(escape(line), highlight=False)
    console.print(f"[dim]{escape(tuning_sentence(known))}[/dim]", highlight=False)
    sys.stdout.write(f"\nChosen: {root / 'tuning.json'}\n")
    for label, own in tuning.contenders.items():
        if own.chosen:
            words = [f"--set {shlex.quote(f'{label}:{k}={v}')}" for k, v in own.values.items()]
            sys.stdout.write(f"  {' '.join(words)}\n")
