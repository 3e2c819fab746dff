"""The leaderboard as CSV (full precision), Markdown and LaTeX (as read); tables with pipes."""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Sequence

from fedcord.report.balanced import (
    EXPLANATION,
    TITLE,
    balanced_table,
    floor_sentence,
    is_worth_showing,
)
from fedcord.report.groups import group_kinds, group_table
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
from fedcord.report.origin import origin_line

HEADINGS = (
    "algorithm",
    "seeds",
    "accuracy %",
    "95 % interval",
    "to the best",
    "95 % interval",
    "p (Holm)",
    "clients %",
    "traffic",
    "time",
)


COLUMNS = (
    *("rank", "algorithm", "seeds", "accuracy_mean", "accuracy_low", "accuracy_high"),
    *("difference_mean", "difference_low", "difference_high"),
    *("p_paired_t", "p_holm", "p_sign_flip", "effect_size"),
    *("balanced_accuracy_mean", "client_accuracy_mean", "worst_client_accuracy"),
    *("bytes_up", "bytes_down", "seconds", "failed_seeds", "untrained_seeds"),
)
"""Of the CSV file."""


def to_the_best(row: Row, is_best: bool) -> str:
    """The difference to the best, or why there is none."""
    if row.difference is not None:
        return points(row.difference.mean)
    return "best" if is_best else NOTHING


def readable_cells(row: Row, is_best: bool) -> tuple[str, ...]:
    """One row in the order of `HEADINGS`."""
    difference = row.difference
    return (
        row.label,
        row.num_seeds,
        percent(row.accuracy.mean),
        cell_bracket(row.accuracy),
        to_the_best(row, is_best),
        NOTHING if difference is None else cell_bracket(difference.interval),
        p_value(row.p_holm),
        percent(row.client_accuracy),
        byte_size(row.num_bytes),
        duration(row.seconds),
    )


def _readable_rows(board: Leaderboard) -> list[tuple[str, ...]]:
    """All rows, and those that failed on every seed."""
    rows = [readable_cells(row, row is board.best) for row in board.rows]
    for own in board.failed:
        cells = (f"{own.name} (failed)", f"0 of {len(own.failures)}")
        rows.append((*cells, *[NOTHING] * (len(HEADINGS) - len(cells))))
    return rows


def to_csv(board: Leaderboard) -> str:
    """Every number unrounded, accuracies as shares; an empty cell: there is no such number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for rank, row in enumerate(board.rows, start=1):
        difference = row.difference
        compared: list[float | None] = [None] * 7
        if difference is not None:
            interval = difference.interval
            compared = [difference.mean, interval.low, interval.high, difference.t_p, row.p_holm]
            compared += [difference.permutation_p, difference.effect_size]
        accuracy = row.accuracy
        writer.writerow(
            (
                *(rank, row.name, accuracy.n, accuracy.mean, accuracy.low, accuracy.high),
                *compared,
                None if row.balanced is None else statistics.fmean(row.balanced),
                *(row.client_accuracy, row.worst_client),
                *(row.bytes_up, row.bytes_down, row.seconds),
                *(len(row.failures), len(row.untrained)),
            )
        )
    for own in board.failed:
        empty = [None] * (len(COLUMNS) - 5)
        writer.writerow((None, own.name, 0, *empty, len(own.failures), None))
    return text.getvalue()


def to_markdown(board: Leaderboard) -> str:
    """A pipe table with the method and the notes below it, and a table for each kind of group."""
    table = pipe_table(HEADINGS, _readable_rows(board))
    below = [board.method, *_notes(board)]
    if is_worth_showing(board):
        below += [f"{TITLE}. {EXPLANATION}", pipe_table(*balanced_table(board))]
    if sentence := floor_sentence(board):
        below.append(sentence)
    for kind in group_kinds(board):
        below += [f"Accuracy per {kind}, %, with 95 % interval (Student t on the logit scale):"]
        below += [pipe_table(*group_table(board, kind))]
    return "\n\n".join([table, *below, origin_line(board)]) + "\n"


def to_latex(board: Leaderboard) -> str:
    """A `tabular` for the booktabs package, with the method as a comment above it."""
    head = " & ".join(_latex(heading) for heading in HEADINGS)
    rows = [" & ".join(map(_latex, cells)) for cells in _readable_rows(board)]
    comments = [f"% {' '.join(line.split())}" for line in (board.method, *_notes(board))]
    body = [rf"{line} \\" for line in rows]
    columns = "l" + "r" * (len(HEADINGS) - 1)
    lines = [*comments, rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rf"{head} \\", r"\midrule"]
    return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _notes(board: Leaderboard) -> list[str]:
    compared = [(row.name, row.difference) for row in board.rows if row.difference is not None]
    return [*board.notes, *(f"{name}: {d.note}." for name, d in compared if d.note)]


LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "−": "$-$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
} | {character: "\\" + character for character in "$&#_%"}


def _latex(text: str) -> str:
    return re.sub("|".join(map(re.escape, LATEX)), lambda found: LATEX[found.group()], text)


def pipe_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines of a table: the first column to the left, all others to the right."""
    marks = ["---"] + ["---:"] * (len(headings) - 1)
    return "\n".join(_line(line) for line in [headings, marks, *rows])


def _line(cells: Sequence[str]) -> str:
    safe = [cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells]
    return "| " + " | ".join(" ".join(cell.split()) for cell in safe) + " |"
