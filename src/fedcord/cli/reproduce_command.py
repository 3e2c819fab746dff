"""`fedcord reproduce NAME [--scale smoke|small|paper]`."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import (
    add_data_dir_flags,
    add_engine_flags,
    add_exchange_flags,
    add_jobs_flag,
    add_set_flag,
    path,
    place_from,
    workers_from,
)
from fedcord.core.errors import CheckpointError, ConfigError, DataError, PairingError
from fedcord.core.toml import parse_value

if TYPE_CHECKING:
    from fedcord.experiment.compare import Study
    from fedcord.experiment.named_study import NamedStudy
    from fedcord.experiment.study_runs import Failure
    from fedcord.experiment.workers import Workers
    from fedcord.report.leaderboard import Leaderboard

RUNS = Path("runs")
TABLE, VALUES = "reproduction.md", "reproduction.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument("name", metavar="NAME", help="a study of `fedcord list studies`")
    parser.add_argument(
        "--scale",
        default="smoke",
        metavar="S",
        help="smoke (minutes, needs no data; the default), small (hours) or paper (for a GPU)",
    )
    parser.add_argument(
        "--part",
        action="append",
        metavar="P",
        help="only this part of the study, such as one data set; repeatable (default: all)",
    )
    parser.add_argument("--seed", metavar="N", help="first seed (default: the study's)")
    parser.add_argument("--seeds", metavar="N", help="number of seeds (default: the scale's)")
    parser.add_argument(
        "--page",
        type=path,
        metavar="DIR",
        help="also write NAME-SCALE.md there, with leaderboards, scores by seed and hashes "
        "of all runs beside it; other parts and your own sections stay",
    )
    add_set_flag(parser)
    add_jobs_flag(parser)
    add_data_dir_flags(parser)
    add_engine_flags(parser)
    add_exchange_flags(parser)
    parser.set_defaults(spaces=[], search=None)  # of tuning, which the scale decides


def execute(arguments: argparse.Namespace) -> int:
    """All runs of the scale, then ours beside the published figures; 1 if something is missing."""
    from fedcord.experiment.config import engine_problems
    from fedcord.experiment.named_study import named_study
    from fedcord.experiment.workers import Workers

    named = named_study(arguments.name)
    overrides = {} if arguments.device is None else {"device": arguments.device}
    for name in ("seed", "seeds"):
        if getattr(arguments, name) is not None:
            overrides[name] = parse_value(getattr(arguments, name))
    studies = _chosen(
        named, named.studies(arguments.scale, overrides, arguments.assignments), arguments.part
    )
    problems = engine_problems(arguments.engine, workers_from(arguments))
    if problems:
        raise ConfigError(problems)
    root = arguments.out or RUNS / f"{named.name}-{arguments.scale}"
    with contextlib.closing(Workers()) as workers:
        failures, lacking = _run(arguments, studies, root, workers)
    return _show(arguments, named, studies, root, failures, lacking)


def _chosen(
    named: NamedStudy, studies: Mapping[str, Study], asked: list[str] | None
) -> dict[str, Study]:
    from fedcord.core.errors import unknown_name

    strange = [part for part in asked or [] if part not in studies]
    if strange:
        raise ConfigError([unknown_name("part", part, studies) for part in strange])
    return {part: own for part, own in studies.items() if asked is None or part in asked}


def _run(
    arguments: argparse.Namespace, studies: Mapping[str, Study], root: Path, workers: Workers
) -> tuple[list[Failure], dict[str, str]]:
    """Runs that failed, and parts without data with the reason; the others go on."""
    from fedcord.cli.compare_command import runs_by
    from fedcord.cli.progress import RunBars
    from fedcord.cli.tuning_flags import plan_from
    from fedcord.experiment.tuning import tune_study, with_chosen

    failures: list[Failure] = []
    lacking: dict[str, str] = {}
    place = place_from(arguments, root)
    plans = {part: plan_from(arguments, study, None) for part, study in studies.items()}
    total = sum(len(study.runs()) for study in studies.values())
    total += sum(plan.num_runs for plan in plans.values() if plan is not None)
    with RunBars(arguments.json or arguments.quiet, total) as bars:
        run_all = runs_by(arguments, place, bars, workers)
        for part, untuned in studies.items():
            study = untuned
            try:
                plan = plans[part]
                if plan is not None:
                    chosen = tune_study(plan, root / part, place, run_all)
                    study = with_chosen(study, chosen)
                failures += run_all(study, root / part)
            except DataError as error:
                lacking[part] = str(error)
    if len(lacking) == len(studies):
        raise DataError(next(iter(lacking.values())))
    return failures, lacking


def _show(
    arguments: argparse.Namespace,
    named: NamedStudy,
    studies: Mapping[str, Study],
    root: Path,
    failures: list[Failure],
    lacking: Mapping[str, str],
) -> int:
    from rich.console import Console

    from fedcord.core.atomic import write_atomically
    from fedcord.report.kept_page import keep_page
    from fedcord.report.published import beside, published_table
    from fedcord.report.reproduction import reproduction_page
    from fedcord.report.terminal import plain_table, print_leaderboard

    scale = named.scales[arguments.scale]
    boards = {part: board for part in studies if (board := _board(root / part)) is not None}
    rows = [beside(boards.get(f.part), f, scale.judges) for f in named.published]
    rows = [row for row in rows if row.published.part in studies]
    about = {
        "study": named.name,
        "title": named.title,
        "source": named.source,
        "scale": arguments.scale,
        "setting": scale.setting,
        "note": named.note,
        "judges": scale.judges,
        "command": _command(arguments),
    }
    values = {
        **about,
        "rows": [row.to_json() for row in rows],
        "boards": {part: board.to_json() for part, board in boards.items()},
        "not_run": dict(lacking),
        "root": str(root),
    }
    page = reproduction_page(about, boards, rows, lacking)
    write_atomically(root / TABLE, page)
    if arguments.page is not None:
        parts = list(named.studies(arguments.scale))
        keep_page(arguments.page, f"{named.name}-{arguments.scale}", page, boards, parts)
    write_atomically(root / VALUES, json.dumps(values, indent=1) + "\n")
    if arguments.json:
        sys.stdout.write(json.dumps(values) + "\n")
    else:
        console = Console()
        for part, board in boards.items():
            console.print(f"\n[bold]{part}[/bold]")
            print_leaderboard(board, console)
        if rows:
            console.print(f"\n[bold]{named.source}[/bold]")
            console.print(plain_table(*published_table(rows)))
        console.print(f"\nSetting: {scale.setting}", highlight=False)
        if named.note:
            console.print(f"Note: {' '.join(named.note.split())}", highlight=False)
        sys.stdout.write(f"Report: {root / TABLE}\n")
    sys.stderr.writelines(f"failed: {failure}\n" for failure in failures)
    sys.stderr.writelines(f"not run: {part}: {reason}\n" for part, reason in lacking.items())
    return int(bool(failures or lacking))


def _command(arguments: argparse.Namespace) -> str:
    """What repeats it, without what only says how to run and where to write."""
    words = ["fedcord", "reproduce", arguments.name, "--scale", arguments.scale]
    for flag in ("seed", "seeds", "device", "metric"):
        value = getattr(arguments, flag)
        words += [] if value is None else [f"--{flag}", str(value)]
    for part in arguments.part or []:
        words += ["--part", part]
    for text in arguments.assignments:
        words += ["--set", text]
    return shlex.join(words)


def _board(folder: Path) -> Leaderboard | None:
    """What the runs of a part show, with its page beside them; None where nothing does."""
    from fedcord.report.build import build_report
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs

    if not folder.exists():
        return None
    try:
        board = leaderboard(load_runs(folder))
        build_report(folder)
    except (CheckpointError, PairingError, ConfigError) as error:
        sys.stderr.write(f"no report of '{folder.name}': {error}\n")
        return None
    return board
