"""`fedcord report DIR…`: tables, plots and page anew from run folders; trains nothing."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedcord.cli.flags import add_metric_flag, path
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.metrics.registry import find_metric

if TYPE_CHECKING:
    from fedcord.report.equivalent import Equivalent
    from fedcord.report.leaderboard import Leaderboard
    from fedcord.report.overtaking import OvertakingTable
    from fedcord.report.overview import Overview
    from fedcord.report.pooled import PooledAgainst


MARGIN = 2.0
"""Points that `--equivalent` calls no difference."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=path,
        metavar="DIR",
        help="study folders; the report goes into the first",
    )
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="compare everything with this one, too; writes against-NAME.md",
    )
    parser.add_argument(
        "--pooled",
        type=path,
        metavar="FILE",
        help="no report, but one table (.md) of --against NAME over all DIRs together, each a "
        "study of its own",
    )
    parser.add_argument(
        "--equivalent",
        type=path,
        metavar="FILE",
        help="no report, but one table (.md): is every algorithm as good in one setting as in "
        "another? DIRs are two studies of each data set with the same seeds, first all of one "
        "setting, then all of the other",
    )
    parser.add_argument(
        "--overtaking",
        type=path,
        metavar="FILE",
        help="no report, but from which traffic and compute on methods with rounds are above "
        "--against NAME, of one DIR: as a table (.md) or drawn (.png, .svg)",
    )
    parser.add_argument(
        "--margin",
        type=float,
        metavar="M",
        help=f"what --equivalent calls no difference, in points (default {MARGIN:g})",
    )
    parser.add_argument(
        "--overview",
        type=path,
        metavar="FILE",
        help="no report, but one table (.md) of every algorithm's score in each DIR, with mean "
        "ranks",
    )
    parser.add_argument(
        "--pareto",
        type=path,
        metavar="FILE",
        help="no report, but one figure of scores against bytes with a panel for each DIR, as "
        ".png or .svg",
    )
    parser.add_argument(
        "--feature-map",
        type=path,
        metavar="FILE",
        help="no report, but a picture of the features and prototypes of one run (DIR), as .png or "
        ".svg",
    )
    parser.add_argument(
        "--plane",
        choices=("pca", "tsne"),
        help="how --feature-map comes to a plane (default pca)",
    )
    parser.add_argument(
        "--client",
        type=int,
        metavar="K",
        help="whose own model (default: the one that all share, or the first client's)",
    )
    parser.add_argument(
        "--data-dir", action="append", type=path, metavar="DIR", help="data folder (--feature-map)"
    )
    add_metric_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(arguments: argparse.Namespace) -> None:
    """Read, compare, write."""
    if arguments.metric is not None:
        find_metric(arguments.metric)  # before anything is read
    missing = [str(folder) for folder in arguments.folders if not folder.is_dir()]
    if missing:
        raise ConfigError(f"no such folder: {', '.join(missing)}; name folders with runs.")
    asked = {
        f"--{name.replace('_', '-')}": getattr(arguments, name)
        for name in ("against", "overview", "equivalent", "pareto", "feature_map")
    }
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} are different things to make; ask for one.")
    extra = [f"--{name}" for name in ("plane", "client") if getattr(arguments, name) is not None]
    if extra and arguments.feature_map is None:
        raise ConfigError(f"{' and '.join(extra)}: of use with --feature-map FILE only.")
    if arguments.margin is not None and arguments.equivalent is None:
        raise ConfigError("--margin: of use with --equivalent FILE only.")
    of_one = {"--pooled": arguments.pooled, "--overtaking": arguments.overtaking}
    named = [name for name, value in of_one.items() if value is not None]
    if len(named) > 1:
        raise ConfigError(f"{' and '.join(named)} are different things to make; ask for one.")
    if named and arguments.against is None:
        raise ConfigError(f"{named[0]} compares with one algorithm; name it: --against NAME.")
    if arguments.pooled is not None:
        _write_pooled(arguments)
    elif arguments.overtaking is not None:
        _write_overtaking(arguments)
    elif arguments.overview is not None:
        _write_overview(arguments)
    elif arguments.equivalent is not None:
        _write_equivalent(arguments)
    elif arguments.feature_map is not None:
        _draw_feature_map(arguments)
    elif arguments.pareto is not None:
        _draw_pareto(arguments)
    else:
        _write_report(arguments)


def _write_report(arguments: argparse.Namespace) -> None:
    from rich.console import Console

    from fedcord.core.atomic import write_output
    from fedcord.report.against import against
    from fedcord.report.build import build_report
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs
    from fedcord.report.terminal import print_leaderboard

    folders, baseline, metric = arguments.folders, arguments.against, arguments.metric
    runs = load_runs(*folders)
    unverified = sum(not run.is_verified for run in runs)
    if unverified:
        sys.stderr.write(
            f"note: {unverified} of {len(runs)} runs are of a version that wrote no checksums; "
            "their files are taken as they are.\n"
        )
    board = leaderboard(runs, metric)
    table = against(board, baseline).to_markdown() if baseline else ""
    page = build_report(*folders, metric=metric).html
    if table:
        write_output(folders[0] / f"against-{baseline}.md", table)
    if arguments.json:
        sys.stdout.write(json.dumps({**board.to_json(), "report": str(page)}) + "\n")
        return
    print_leaderboard(board, Console())
    sys.stdout.write(table)
    sys.stdout.write(f"\nReport: {page}\n")


def _draw_feature_map(arguments: argparse.Namespace) -> None:
    from fedcord.experiment.feature_map import draw_feature_map
    from fedcord.report.canvas import check_suffix, save_figure

    check_suffix(arguments.feature_map)
    if len(arguments.folders) > 1:
        raise ConfigError("--feature-map shows one run; name one folder.")
    (run,) = arguments.folders
    figure = draw_feature_map(run, arguments.plane or "pca", arguments.client, arguments.data_dir)
    save_figure(figure, arguments.feature_map)
    path = str(arguments.feature_map)
    sys.stdout.write(json.dumps({"figure": path}) + "\n" if arguments.json else f"Figure: {path}\n")


def _draw_pareto(arguments: argparse.Namespace) -> None:
    """Each folder is a study of its own here: studies need not be paired to stand side by side."""
    from fedcord.report.canvas import check_suffix, save_figure
    from fedcord.report.frontier import frontier
    from fedcord.report.notes import in_one_line
    from fedcord.report.pareto import pareto_figure

    folders, figure = arguments.folders, arguments.pareto
    check_suffix(figure)
    boards, titles = _side_by_side(folders, arguments.metric)
    save_figure(pareto_figure(boards, titles), figure)
    parts = list(zip(folders, titles, boards, strict=True))
    if arguments.json:
        panels = [
            {
                "folder": str(folder),
                "title": title,
                "seeds": list(board.seeds),
                "notes": list(board.all_notes),
                **frontier(board).to_json(),
            }
            for folder, title, board in parts
        ]
        sys.stdout.write(json.dumps({"figure": str(figure), "panels": panels}) + "\n")
        return
    for _, title, board in parts:
        sys.stdout.write(f"{title}. {frontier(board).sentence}\n")
        short = in_one_line(board.remarks, "--json")
        sys.stdout.writelines(f"note: {note}\n" for note in (*board.notes, *short))
    sys.stdout.write(f"\nFigure: {figure}\n")


def _write_pooled(arguments: argparse.Namespace) -> None:
    from fedcord.report.pooled import pooled_against

    _check_table(arguments.pooled)
    boards = _side_by_side(arguments.folders, arguments.metric)
    _write_table(pooled_against(*boards, arguments.against), arguments.pooled, arguments.json)


def _write_overtaking(arguments: argparse.Namespace) -> None:
    from fedcord.report.overtaking import overtaking

    file, folders = arguments.overtaking, arguments.folders
    allowed = (".md", ".png", ".svg")
    if file.suffix.lower() not in allowed:
        raise ConfigError(
            f"what overtakes cannot be written to '{file.name}'; allowed endings: "
            f"{', '.join(allowed)}."
        )
    if len(folders) > 1:
        raise ConfigError("--overtaking is about one study; name one folder.")
    board = _finished_board(folders[0], arguments.metric)
    table = overtaking(board, arguments.against)
    if file.suffix.lower() == ".md":
        _write_table(table, file, arguments.json)
        return
    from fedcord.report.canvas import save_figure
    from fedcord.report.overtaking_figure import overtaking_figure

    save_figure(overtaking_figure(board, table), file)
    if arguments.json:
        found = {**dataclasses.asdict(table), "figure": str(file)}
        sys.stdout.write(json.dumps(found) + "\n")
        return
    sys.stdout.write(f"{table.to_markdown()}\nFigure: {file}\n")


def _write_overview(arguments: argparse.Namespace) -> None:
    from fedcord.report.overview import overview

    _check_table(arguments.overview)
    boards = _side_by_side(arguments.folders, arguments.metric)
    _write_table(overview(*boards), arguments.overview, arguments.json)


def _write_equivalent(arguments: argparse.Namespace) -> None:
    from fedcord.report.equivalent import equivalent

    _check_table(arguments.equivalent)
    margin = MARGIN if arguments.margin is None else arguments.margin
    boards = _side_by_side(arguments.folders, arguments.metric)
    _write_table(equivalent(*boards, margin), arguments.equivalent, arguments.json)


def _check_table(file: Path) -> None:
    if file.suffix.lower() != ".md":
        raise ConfigError(f"a table cannot be written to '{file.name}'; allowed ending: .md.")


def _write_table(
    table: PooledAgainst | Overview | Equivalent | OvertakingTable, file: Path, as_json: bool
) -> None:
    from fedcord.core.atomic import write_output

    write_output(file, table.to_markdown())
    if as_json:
        sys.stdout.write(json.dumps({**dataclasses.asdict(table), "table": str(file)}) + "\n")
        return
    sys.stdout.write(f"{table.to_markdown()}\nTable: {file}\n")


def _side_by_side(
    folders: list[Path], metric: str | None
) -> tuple[list[Leaderboard], tuple[str, ...]]:
    """The finished studies, all by one metric, and what tells them apart."""
    from fedcord.report.frontier import panel_titles

    places = [folder.resolve() for folder in folders]
    twice = [str(f) for n, f in enumerate(folders) if places[n] in places[:n]]
    if twice:
        raise ConfigError(
            f"named more than once: {', '.join(twice)}; a study counts once, name its folder once."
        )
    boards = [_finished_board(folder, metric) for folder in folders]
    if len({board.metric.name for board in boards}) > 1:
        found = ", ".join(f"{f} by {b.metric.name}" for f, b in zip(folders, boards, strict=True))
        raise ConfigError(
            f"these studies were made to be compared by different metrics ({found}); "
            "choose one: --metric NAME."
        )
    titles = panel_titles(boards)
    if len(set(titles)) < len(titles):  # studies that differ in parameters or rounds only
        titles = tuple(f"{t}, {f.name}" for t, f in zip(titles, folders, strict=True))
    return boards, titles


def _finished_board(folder: Path, metric: str | None) -> Leaderboard:
    """A study's leaderboard; a missing method could be the one that beats the others."""
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs

    runs = load_runs(folder)
    unfinished = [
        f"{run.name} seed {run.seed}" for run in runs if not run.is_finished and run.failure is None
    ]
    if unfinished:
        shown = ", ".join(unfinished[:5]) + (", …" if len(unfinished) > 5 else "")
        raise CheckpointError(
            f"{folder} is not finished ({shown}), and what is missing could change who is beaten; "
            "finish it with --resume, or move these runs away."
        )
    return leaderboard(runs, metric)
