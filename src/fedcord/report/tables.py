"""The leaderboard as CSV (full precision), Markdown and LaTeX (as read); tables with pipes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import astuple

from fedcord.metrics.registry import METRICS, Metric
from fedcord.report.balanced import (
    EXPLANATION,
    TITLE,
    balanced_table,
    floor_sentence,
    is_worth_showing,
)
from fedcord.report.classes import class_table, classes_sentence, has_classes
from fedcord.report.cost import EXPLANATION as EXPLAINED
from fedcord.report.cost import TITLE as COSTS
from fedcord.report.cost import Cost, compute_sentence, cost_table
from fedcord.report.groups import group_kinds, group_table
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.metrics_table import TITLE as ALL_METRICS
from fedcord.report.metrics_table import has_more, metrics_sentence, metrics_table
from fedcord.report.numbers import NOTHING, byte_size, duration, p_value
from fedcord.report.origin import origin_line
from fedcord.report.row import Row
from fedcord.report.scores import score, score_cell_bracket, score_gap, score_heading
from fedcord.report.tuning import TITLE as TUNING
from fedcord.report.tuning import entries_of, summary_table, trials_table, tuning_sentence


def headings(metric: Metric) -> tuple[str, ...]:
    """Of the tables that are read."""
    return (
        *("algorithm", "seeds", score_heading(metric), "95 % interval", "to the best"),
        *("95 % interval", "p (Holm)", f"clients {metric.unit}".strip(), "traffic", "time"),
    )


def columns(metric: Metric) -> tuple[str, ...]:
    """Of the CSV file; in the middle the means of all other metrics."""
    name = metric.name
    return (
        *("rank", "algorithm", "seeds", f"{name}_mean", f"{name}_low", f"{name}_high"),
        *("difference_mean", "difference_low", "difference_high"),
        *("p_paired_t", "p_holm", "p_sign_flip", "effect_size"),
        *(f"{other}_mean" for other in METRICS if other != name),
        *("bytes_up", "bytes_down", "seconds"),
        *("complete_bytes", "delivery_bytes", "forward_passes", "backward_passes"),
        *("busiest_client_compute", "cpu_seconds", "below_constant_answer"),
        *("failed_seeds", "untrained_seeds"),
    )


def to_the_best(row: Row, is_best: bool) -> str:
    """The difference to the best, or why there is none."""
    if row.difference is not None:
        return score_gap(row.difference.mean, row.metric)
    return "best" if is_best else NOTHING


def readable_cells(row: Row, is_best: bool) -> tuple[str, ...]:
    """One row in the order of `headings`."""
    difference, metric, over = row.difference, row.metric, row.over_clients
    return (
        row.label,
        row.num_seeds,
        score(row.score.mean, metric),
        score_cell_bracket(row.score, metric),
        to_the_best(row, is_best),
        NOTHING if difference is None else score_cell_bracket(difference.interval, metric),
        p_value(row.p_holm),
        score(None if over is None else over.mean, metric),
        byte_size(row.num_bytes),
        duration(row.seconds),
    )


def _readable_rows(board: Leaderboard) -> list[tuple[str, ...]]:
    """All rows, and those that failed on every seed."""
    rows = [readable_cells(row, row is board.best) for row in board.rows]
    for own in board.failed:
        cells = (f"{own.name} (failed)", f"0 of {len(own.failures)}")
        rows.append((*cells, *[NOTHING] * (len(headings(board.metric)) - len(cells))))
    return rows


def to_csv(board: Leaderboard) -> str:
    """Every number unrounded, shares from 0 to 1; an empty cell: there is no such number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = columns(board.metric)
    writer.writerow(heads)
    for rank, row in enumerate(board.rows, start=1):
        difference = row.difference
        compared: list[float | None] = [None] * 7
        if difference is not None:
            interval = difference.interval
            compared = [difference.mean, interval.low, interval.high, difference.t_p, row.p_holm]
            compared += [difference.permutation_p, difference.effect_size]
        own = row.score
        writer.writerow(
            (
                *(rank, row.name, own.n, own.mean, own.low, own.high),
                *compared,
                *(row.mean_of(name) for name in METRICS if name != board.metric.name),
                *(row.bytes_up, row.bytes_down, row.seconds),
                *(*astuple(row.cost), int(row.is_below_constant)),
                *(len(row.failures), len(row.untrained)),
            )
        )
    for failed in board.failed:
        empty = [None] * (len(heads) - 5)
        writer.writerow((None, failed.name, 0, *empty, len(failed.failures), None))
    return text.getvalue()


def to_markdown(board: Leaderboard) -> str:
    """A pipe table with the method and the notes below it, and a table for each kind of group."""
    below = []
    if board.plan is not None:
        below += [*board.plan.markdown(), pipe_table(*board.plan.table(board.metric))]
        below += [board.plan.correction()]
    if is_worth_showing(board):
        below += [f"{TITLE}. {EXPLANATION}", pipe_table(*balanced_table(board))]
    if sentence := floor_sentence(board):
        below.append(sentence)
    if has_more(board):
        below += [f"{ALL_METRICS}. {metrics_sentence(board)}", pipe_table(*metrics_table(board))]
    if has_classes(board):
        below += [classes_sentence(board), pipe_table(*class_table(board))]
    if known := entries_of(board.rows):
        below += [f"{TUNING}. {tuning_sentence(known, board.metric)}"]
        below += [pipe_table(*summary_table(known)), pipe_table(*trials_table(known))]
    if any(row.cost.is_known for row in board.rows):
        below += [f"{COSTS}. {EXPLAINED} {compute_sentence(costs_of(board))}".strip()]
        below += [pipe_table(*cost_table(costs_of(board)))]
    for kind in group_kinds(board):
        below += [f"Accuracy per {kind}, %, with 95 % interval (Student t on the logit scale):"]
        below += [pipe_table(*group_table(board, kind))]
    return "\n\n".join([*_main(board), *below, origin_line(board)]) + "\n"


def costs_of(board: Leaderboard) -> list[tuple[str, Cost]]:
    """By method, in the order of the board."""
    return [(row.name, row.cost) for row in board.rows]


def short_markdown(board: Leaderboard) -> str:
    """The pipe table with what must stand below it, for pages that hold several."""
    return "\n\n".join([*_main(board), origin_line(board)])


def _main(board: Leaderboard) -> list[str]:
    table = pipe_table(headings(board.metric), _readable_rows(board))
    return [table, board.method, *_notes(board)]


def to_latex(board: Leaderboard) -> str:
    """A `tabular` for the booktabs package, with the method as a comment above it."""
    head = " & ".join(_latex(heading) for heading in headings(board.metric))
    rows = [" & ".join(map(_latex, cells)) for cells in _readable_rows(board)]
    comments = [f"% {' '.join(line.split())}" for line in (board.method, *_notes(board))]
    body = [rf"{line} \\" for line in rows]
    columns = "l" + "r" * (len(headings(board.metric)) - 1)
    lines = [*comments, rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rf"{head} \\", r"\midrule"]
    return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _notes(board: Leaderboard) -> list[str]:
    compared = [(row.name, row.difference) for row in board.rows if row.difference is not None]
    return [*board.all_notes, *(f"{name}: {d.note}." for name, d in compared if d.note)]


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
