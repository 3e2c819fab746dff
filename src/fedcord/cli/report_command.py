"""`fedcord report DIR…`: tables, plots and page anew from run folders; trains nothing."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fedcord.core.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's flags."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="study folders; the report goes into the first",
    )
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="compare everything with this one, too; writes against-NAME.md",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")


def execute(arguments: argparse.Namespace) -> None:
    """Read, compare, write."""
    missing = [str(folder) for folder in arguments.folders if not folder.is_dir()]
    if missing:
        raise ConfigError(f"no such folder: {', '.join(missing)}; name folders with runs.")

    from rich.console import Console

    from fedcord.report.against import against
    from fedcord.report.build import build_report
    from fedcord.report.files import write_output
    from fedcord.report.leaderboard import leaderboard
    from fedcord.report.load import load_runs
    from fedcord.report.terminal import print_leaderboard

    board = leaderboard(load_runs(*arguments.folders))
    table = against(board, arguments.against).to_markdown() if arguments.against else ""
    page = build_report(*arguments.folders).html
    if table:
        write_output(arguments.folders[0] / f"against-{arguments.against}.md", table)
    if arguments.json:
        sys.stdout.write(json.dumps({**board.to_json(), "report": str(page)}) + "\n")
        return
    print_leaderboard(board, Console())
    sys.stdout.write(table)
    sys.stdout.write(f"\nReport: {page}\n")
