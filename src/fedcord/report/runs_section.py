"""Every run behind the page's numbers: its folder, and the command that repeats it."""

from __future__ import annotations

from html import escape
from pathlib import Path
from urllib.parse import quote

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run
from fedcord.report.markup import Cell, Line, methods_of, table
from fedcord.report.numbers import NOTHING, byte_size, duration
from fedcord.report.origin import run_command
from fedcord.report.scores import score, score_heading
from fedcord.report.subject import command_without_folders


def runs_section(board: Leaderboard, home: Path | None) -> str:
    """The runs by method and seed.

    Args:
        board: the comparison.
        home: the folder in which the page will lie; runs below it are linked.
    """
    numbers, metric = methods_of(board), board.metric
    head = ["algorithm", "seed", score_heading(metric, ","), "traffic", "time", "folder", "command"]
    lines = []
    for row in board.rows:
        number = numbers[row.name]
        for place, (run, value) in enumerate(zip(row.runs, row.values, strict=True)):
            assert run.result is not None
            size = run.result.bytes_up + run.result.bytes_down
            name = escape(row.name)
            first = f'<span id="runs-of-{number}">{name}</span>' if place == 0 else name
            cells = [
                Cell(first),
                Cell(str(run.seed), run.seed),
                Cell(escape(score(value, metric)), value),
                Cell(byte_size(size), size),
                Cell(duration(run.result.seconds), run.result.seconds),
                Cell(_folder(run, home)),
                Cell(_command(run)),
            ]
            lines.append(Line(cells, number, anchor=f"run-{number}-{run.seed}"))
    return (
        '<section><h2>Runs</h2><p class="small">Where every number comes from. The command repeats '
        "one run; numbers elsewhere on this page lead here.</p>"
        "<details><summary>All runs, their folders and commands</summary>"
        f"{table('Runs', [Cell(escape(text)) for text in head], lines, kind='sortable runs')}"
        "</details></section>"
    )


def _folder(run: Run, home: Path | None) -> str:
    """A link where the run lies below the page, which then can move together with it."""
    if home is not None and run.folder.is_relative_to(home.resolve()):
        inside = run.folder.relative_to(home.resolve())
        if inside.parts:
            place = "/".join(map(quote, inside.parts))
            return f'<a href="./{place}/">{escape(inside.as_posix())}</a>'
    return escape("/".join(run.folder.parts[-2:])) or NOTHING


def _command(run: Run) -> str:
    shown = escape(command_without_folders(run_command(run)))
    return f"<details><summary>show</summary><pre>{shown}</pre></details>"
