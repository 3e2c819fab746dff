"""The leaderboard in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedcord.metrics.registry import DEFAULT
from fedcord.report.balanced import (
    EXPLANATION,
    balanced_table,
    floor_sentence,
    is_worth_showing,
)
from fedcord.report.classes import class_table, classes_sentence, has_classes
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.notes import in_one_line
from fedcord.report.numbers import NOTHING, byte_size, duration, p_value
from fedcord.report.row import Row
from fedcord.report.scores import score, score_cell_bracket, score_gap, score_heading
from fedcord.report.tuning import entries_of, tuning_lines
from fedcord.report.verdict import verdict

WIDE = 104
"""From this width on an interval stands beside its number, below it otherwise."""


def print_leaderboard(board: Leaderboard, console: Console) -> None:
    """Print the verdict, the table, and what the numbers are."""
    is_wide = console.width >= WIDE
    console.print()
    console.print(f"[bold]{escape(verdict(board))}[/bold]", highlight=False)
    console.print(_table(board, is_wide))
    console.print(f"[dim]{escape(board.method)}[/dim]", highlight=False)
    if is_worth_showing(board):
        console.print(plain_table(*balanced_table(board)))
        console.print(f"[dim]{escape(EXPLANATION)}[/dim]", highlight=False)
    if sentence := floor_sentence(board):
        console.print(escape(sentence), highlight=False)
    if _is_about_classes(board):
        console.print(plain_table(*class_table(board)))
        console.print(f"[dim]{escape(classes_sentence(board))}[/dim]", highlight=False)
    if board.plan is not None:
        console.print(f"[cyan]plan[/cyan] {escape(board.plan.standing)}", highlight=False)
        console.print(plain_table(*board.plan.table(board.metric)))
        console.print(f"[dim]{escape(board.plan.correction())}[/dim]", highlight=False)
        for text in board.plan.deviations:
            console.print(f"[yellow]not as planned[/yellow] {escape(text)}", highlight=False)
    for line in tuning_lines(entries_of(board.rows)):
        console.print(f"[cyan]tuned[/cyan] {escape(line)}", highlight=False)
    for note in (*board.notes, *in_one_line(board.remarks, "report.html")):
        console.print(f"[yellow]note[/yellow] {escape(note)}", highlight=False)
    console.print()


def _table(board: Leaderboard, is_wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("algorithm", overflow="fold", min_width=9)
    table.add_column(score_heading(board.metric), justify="right", no_wrap=True)
    if len(board.rows) > 1:
        table.add_column("to the best", justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
    if is_wide:
        table.add_column(f"clients {board.metric.unit}".strip(), justify="right", no_wrap=True)
    table.add_column("traffic", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for row in board.rows:
        table.add_row(*_cells(row, board, is_wide))
    for own in board.failed:
        table.add_row(_marked(own.name, "failed on every seed"), "failed")
    return table


def _is_about_classes(board: Leaderboard) -> bool:
    """Whether one number for all classes is not enough: they are unequal, or more was asked for."""
    floor = board.floor
    is_asked = board.metric.name != DEFAULT or (floor is not None and floor.is_unequal)
    return is_asked and not board.metric.over_clients and has_classes(board)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of texts."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column(head[0], overflow="fold", min_width=9)
    for heading in head[1:]:
        table.add_column(escape(heading), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _cells(row: Row, board: Leaderboard, is_wide: bool) -> list[str]:
    gap, metric = "  " if is_wide else "\n", board.metric
    is_compared, is_best = len(board.rows) > 1, row is board.best
    name = _marked(row.name, row.mark)
    cells = [
        f"[bold]{name}[/bold]" if is_best and is_compared else name,
        score(row.score.mean, metric) + gap + _dim(score_cell_bracket(row.score, metric)),
    ]
    if row.difference is not None:
        difference = row.difference
        interval = _dim(score_cell_bracket(difference.interval, metric))
        cells.append(score_gap(difference.mean, metric) + gap + interval)
        cells.append(p_value(row.p_holm))
    elif is_compared:
        cells += ["[green]best[/green]" if is_best else NOTHING, NOTHING]
    if is_wide:
        over = row.over_clients
        cells.append(score(None if over is None else over.mean, metric))
    return [*cells, byte_size(row.num_bytes), duration(row.seconds)]


def _marked(name: str, mark: str) -> str:
    return f"{escape(name)}\n[red]{escape(mark)}[/red]" if mark else escape(name)


def _dim(text: str) -> str:
    return f"[dim]{escape(text)}[/dim]"
