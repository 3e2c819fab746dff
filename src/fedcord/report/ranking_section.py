"""The leaderboard on the page, by the metric that is compared and by every other."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedcord.report.leaderboard import Leaderboard
from fedcord.report.markup import Cell, Line, choice, methods_of, table, to_runs
from fedcord.report.numbers import NOTHING, byte_size, counted, duration, listed, p_value
from fedcord.report.scores import (
    gap_heading,
    score,
    score_cell_bracket,
    score_gap,
    score_heading,
)
from fedcord.report.verdict import verdict


def verdicts(boards: Sequence[Leaderboard]) -> str:
    """The verdict by each metric, the page's own first."""
    options = [
        (board.metric.words, f'<p class="verdict">{escape(verdict(board))}</p>') for board in boards
    ]
    return choice("metric", "Metric", options)


def ranking(board: Leaderboard) -> str:
    """One table with the sentences that belong under it."""
    is_compared = len(board.rows) > 1
    text = f'<p class="small">{escape(board.method)}'
    if is_compared and 1 < board.best.score.n <= 15:
        text += (
            " Intervals are per comparison, not corrected. The sign-flip p is exact and assumes "
            f"only symmetry; with {counted(board.best.score.n, 'pair')} it cannot fall below "
            f"{p_value(min(1.0, 2.0 ** (1 - board.best.score.n)))}."
        )
    names: dict[str, list[str]] = {}
    for row in board.rows:
        if row.difference is not None and row.difference.note:
            names.setdefault(row.difference.note, []).append(row.name)
    notes = "".join(
        f'<p class="small">{escape(listed(own))}: {escape(note)}.</p>'
        for note, own in names.items()
    )
    head = [Cell(text) for text in _head(board)]
    lines = table("Leaderboard", head, _lines(board), kind="sortable")
    return f"{lines}{text}</p>{notes}"


def _head(board: Leaderboard) -> list[str]:
    metric = board.metric
    head = ["algorithm", "seeds", escape(score_heading(metric, ","))]
    if len(board.rows) > 1:
        head += [gap_heading("to the best", metric), "p", "p, sign flip"]
    return [
        *head,
        "clients, %" if metric.is_share else "clients",
        "traffic per run",
        "time per run",
    ]


def _lines(board: Leaderboard) -> list[Line]:
    is_compared, metric, numbers = len(board.rows) > 1, board.metric, methods_of(board)
    lines = []
    for row in board.rows:
        number, difference, over = numbers[row.name], row.difference, row.over_clients
        interval = score_cell_bracket(row.score, metric)
        cells = [
            Cell(_marked(to_runs(escape(row.name), number, is_name=True), row.mark)),
            Cell(escape(row.num_seeds), row.score.n),
            Cell(_ranged(score(row.score.mean, metric), interval, number), row.score.mean),
        ]
        if difference is not None:
            gap = score_gap(difference.mean, metric)
            interval = score_cell_bracket(difference.interval, metric)
            p_flip = difference.permutation_p
            cells += [
                Cell(_ranged(gap, interval, number), difference.mean),
                Cell(p_value(row.p_holm), row.p_holm),
                Cell(p_value(p_flip), p_flip),
            ]
        elif is_compared:
            is_best = row is board.best
            cells += [Cell("best", 0.0) if is_best else Cell(NOTHING)]
            cells += [Cell(NOTHING), Cell(NOTHING)]
        mean = None if over is None else over.mean
        cells += [
            Cell(to_runs(score(mean, metric), number) if over else NOTHING, mean),
            Cell(to_runs(byte_size(row.num_bytes), number), row.num_bytes),
            Cell(to_runs(duration(row.seconds), number), row.seconds),
        ]
        lines.append(Line(cells, number, is_best=row is board.best and is_compared))
    for own in board.failed:
        cells = [Cell(_marked(escape(own.name), "failed on every seed"))]
        cells += [Cell(f"0 of {len(own.failures)}", 0)]
        lines.append(Line([*cells, *[Cell(NOTHING)] * (len(_head(board)) - len(cells))]))
    return lines


def _marked(name: str, mark: str) -> str:
    """A name with what must stand beside it."""
    return name + (f'<span class="mark">{escape(mark)}</span>' if mark else "")


def _ranged(number: str, interval: str, method: int) -> str:
    return f'{to_runs(escape(number), method)}<span class="range">{escape(interval)}</span>'
