"""Every client under every method: who gains from which."""

from __future__ import annotations

from html import escape

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.load import Run
from fedcord.report.markup import Cell, Line, choice, methods_of, table
from fedcord.report.numbers import NOTHING, percent

MOST_CELLS = 6000
"""Seeds beyond the first are left out where they would make the page heavy."""

MOST_OPEN = 40
"""A table of more clients is folded."""


def has_client_table(board: Leaderboard) -> bool:
    """Whether some run tells of its clients."""
    return bool(_seeds(board))


def client_tables(board: Leaderboard) -> str:
    """Accuracy of each client's own test part, a table for each seed.

    One seed at a time: another seed is another split, in which client 3 is somebody else.
    """
    seeds = _seeds(board)
    size = len(board.rows) * max(len(own) for own in _by_method(board, seeds[0]).values())
    shown = seeds[: max(1, MOST_CELLS // size)]
    first = board.best.runs[0].seed
    title = '<h3 class="later">Accuracy of every client, % of its own test part</h3>'
    more = "" if len(shown) == len(seeds) else f" Of {len(seeds)} seeds {len(shown)} are here."
    sentence = (
        '<p class="small">Every seed has a split of its own, so a table of its own; the picture of '
        f"the clients shows seed {first}. Shaded by accuracy; a dash: no test example of its own."
        f"{more}</p>"
    )
    options = [(f"seed {seed}", _table(board, seed)) for seed in shown]
    tables = choice("client-seed", "Split", options)
    if size > MOST_OPEN * len(board.rows):
        tables = f"<details><summary>All clients</summary>{tables}</details>"
    return title + sentence + tables


def _table(board: Leaderboard, seed: int) -> str:
    found, numbers = _by_method(board, seed), methods_of(board)
    run = next(own for row in board.rows for own in row.runs if own.seed == seed)
    names = run.partition.names if run.partition is not None else {}
    sizes = run.partition.counts.sum(axis=1).tolist() if run.partition is not None else []
    count = max(len(own) for own in found.values())
    head = [Cell("client"), Cell("training examples")]
    head += [
        Cell(f'<a href="#run-{numbers[name]}-{seed}">{escape(name)}</a>', method=numbers[name])
        for name in found
    ]
    lines = []
    for client in range(count):
        size = sizes[client] if client < len(sizes) else None
        cells = [
            Cell(escape(names.get(client, str(client))), client),
            Cell(NOTHING if size is None else f"{size:,}", size),
        ]
        for name, own in found.items():
            value = own[client] if client < len(own) else None
            cells.append(Cell(percent(value, 1), value, numbers[name], value))
        is_drawn = seed == board.best.runs[0].seed
        lines.append(Line(cells, data={"client": client} if is_drawn else {}))
    return table(f"Accuracy of every client, seed {seed}", head, lines, kind="sortable shaded")


def _seeds(board: Leaderboard) -> list[int]:
    return [seed for seed in board.seeds if _by_method(board, seed)]


def _by_method(board: Leaderboard, seed: int) -> dict[str, tuple[float | None, ...]]:
    runs = {row.name: run for row in board.rows for run in row.runs if run.seed == seed}
    return {name: _accuracies(run) for name, run in runs.items() if _accuracies(run)}


def _accuracies(run: Run) -> tuple[float | None, ...]:
    return () if run.result is None else run.result.measured.by_client
