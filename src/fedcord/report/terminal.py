"""The leaderboard in a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedcord.report.leaderboard import Leaderboard, Row
from fedcord.report.numbers import (
    NOTHING,
    byte_size,
    cell_bracket,
    duration,
    p_value,
    percent,
    points,
)
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
    for note in board.notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}", highlight=False)
    console.print()


def _table(board: Leaderboard, is_wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("algorithm", overflow="fold", min_width=9)
    table.add_column("accuracy %", justify="right", no_wrap=True)
    if len(board.rows) > 1:
        table.add_column("to the best", justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
    if is_wide:
        table.add_column("clients %", justify="right", no_wrap=True)
    table.add_column("traffic", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for row in board.rows:
        table.add_row(*_cells(row, len(board.rows) > 1, is_wide))
    return table


def _cells(row: Row, is_compared: bool, is_wide: bool) -> list[str]:
    gap = "  " if is_wide else "\n"
    name = escape(row.name)
    cells = [
        f"[bold]{name}[/bold]" if row.difference is None and is_compared else name,
        percent(row.accuracy.mean) + gap + _dim(cell_bracket(row.accuracy)),
    ]
    if row.difference is not None:
        difference = row.difference
        cells.append(points(difference.mean) + gap + _dim(cell_bracket(difference.interval)))
        cells.append(p_value(row.p_holm))
    elif is_compared:
        cells += ["[green]best[/green]", NOTHING]
    if is_wide:
        cells.append(percent(row.client_accuracy))
    return [*cells, byte_size(row.num_bytes), duration(row.seconds)]


def _dim(text: str) -> str:
    return f"[dim]{escape(text)}[/dim]"
