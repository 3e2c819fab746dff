"""The report as one HTML file that asks the network for nothing and escapes all it has read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from fedcord.metrics.registry import DEFAULT, METRICS
from fedcord.report.balanced import (
    EXPLANATION,
    TITLE,
    balanced_table,
    floor_sentence,
    is_worth_showing,
)
from fedcord.report.classes import class_table, classes_sentence, has_classes
from fedcord.report.client_table import client_tables, has_client_table
from fedcord.report.confusion_table import confusion_tables, has_confusion_tables
from fedcord.report.cost import EXPLANATION as COMPLETELY
from fedcord.report.cost import TITLE as COMPLETE
from fedcord.report.cost import compute_sentence, cost_table
from fedcord.report.figures import Panel, Panels
from fedcord.report.frontier import frontier
from fedcord.report.groups import group_kinds, group_table
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.live import policy, script_elements
from fedcord.report.markup import Cell, Line, choice, methods_of, table, text_table, to_runs
from fedcord.report.metrics_table import TITLE as ALL_METRICS
from fedcord.report.metrics_table import has_more, metrics_sentence, metrics_table
from fedcord.report.notes import gathered
from fedcord.report.numbers import byte_size, counted, duration
from fedcord.report.origin import origin_section
from fedcord.report.page_style import CSS
from fedcord.report.planned import TITLE as PLAN
from fedcord.report.ranking_section import ranking, verdicts
from fedcord.report.row import Row
from fedcord.report.runs_section import runs_section
from fedcord.report.scores import score
from fedcord.report.subject import heading, without_folders
from fedcord.report.tables import costs_of
from fedcord.report.tuning import (
    ALL_TRIALS,
    entries_of,
    summary_table,
    trials_table,
    tuning_sentence,
)
from fedcord.report.tuning import TITLE as TUNING


def render_page(
    board: Leaderboard,
    panels: Panels,
    others: Sequence[Leaderboard] = (),
    home: Path | None = None,
) -> str:
    """The whole page.

    Args:
        board: the comparison.
        panels: its figures.
        others: the same runs by other metrics.
        home: the folder in which the page will lie.
    """
    boards = [board, *others]
    config = board.best.runs[0].config
    names = [row.name for row in board.rows]
    title = escape(heading(names, str(config.get("dataset", "unknown data"))))
    parts = [
        _header(boards, config, title),
        _leaderboard_section(boards, panels),
        _plan_section(board),
        _notes_section(board),
        _tuning_section(board),
        _classes_section(board, panels),
        _curves_section(boards, panels),
        _clients_section(boards, panels),
        _costs_section(boards, panels),
        runs_section(board, home),
        origin_section(board),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # a second lock: even a mistake in here could not make a browser fetch or run anything
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n"
        + script_elements(boards, panels.values())
        + "</body>\n</html>\n"
    )


def _header(boards: Sequence[Leaderboard], config: Mapping[str, object], title: str) -> str:
    board = boards[0]
    partition = board.best.runs[0].partition
    facts = [str(config["partition"])] if "partition" in config else []
    facts += [counted(len(partition.counts), "client")] if partition is not None else []
    models = {_joined(row.runs[0].config.get("model", "")) for row in board.rows} - {""}
    facts += [f"model {without_folders(model)}" for model in models if len(models) == 1]
    facts += [counted(board.best.score.n, "seed")]
    return (
        f'<header><p class="kicker">fedcord report · {escape(" · ".join(facts))}</p>'
        f"<h1>{title}</h1>{verdicts(boards)}</header>"
    )


def _plan_section(board: Leaderboard) -> str:
    if board.plan is None:
        return ""
    said = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in board.plan.lines
    )
    return (
        f"<section><h2>{PLAN}</h2><p>{escape(board.plan.standing)}</p><dl>{said}</dl>"
        f"{text_table(board, PLAN, *board.plan.table(board.metric))}"
        f"<p>{escape(board.plan.correction())}</p></section>"
    )


def _notes_section(board: Leaderboard) -> str:
    """After the result: what qualifies it, each thing once, and what runs noted as one line."""
    if not board.all_notes:
        return ""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in board.notes)
    kinds = gathered(board.remarks)
    if len(kinds) == 1:
        notes += f'<p class="note">{escape(kinds[0])}</p>'
    elif kinds:
        num_runs = len({(note.name, note.seed) for note in board.remarks})
        lines = "".join(f'<p class="note">{escape(kind)}</p>' for kind in kinds)
        notes += (
            f"<details><summary>{counted(len(board.remarks), 'note')} of "
            f"{counted(num_runs, 'run')}, of {len(kinds)} kinds</summary>{lines}</details>"
        )
    return f"<section><h2>Notes</h2>{notes}</section>"


def _tuning_section(board: Leaderboard) -> str:
    known = entries_of(board.rows)
    if not known:
        return ""
    return (
        f"<section><h2>{TUNING}</h2>{text_table(board, TUNING, *summary_table(known))}"
        f'<p class="small">{escape(tuning_sentence(known, board.metric))}</p>'
        f'<h3 class="later">{ALL_TRIALS}</h3>'
        f"{text_table(board, ALL_TRIALS, *trials_table(known))}</section>"
    )


def _by_metric(boards: Sequence[Leaderboard], part: Callable[[Leaderboard], str]) -> str:
    """A part of the page by every metric, of which the reader sees the one that was chosen."""
    return choice("metric", "Metric", [(board.metric.words, part(board)) for board in boards])


def _leaderboard_section(boards: Sequence[Leaderboard], panels: Panels) -> str:
    first = boards[0]

    def part(board: Leaderboard) -> str:
        # what was to be compared was said before: trying eleven metrics finds gaps by chance
        afterwards = (
            f'<p class="note">Chosen afterwards: these runs were to be compared by '
            f"{escape(first.metric.words)}. For tables and figures by this metric as files: "
            f"<code>fedcord report FOLDER --metric {board.metric.name}</code>.</p>"
        )
        panel = panels.of(board).get("final")
        return (
            f"{'' if board is first else afterwards}{ranking(board)}{_balanced(board)}"
            f"{_floor(board)}{_figure(panel) if panel else ''}"
        )

    return f"<section><h2>Leaderboard</h2>{_by_metric(boards, part)}{_all_metrics(first)}</section>"


def _balanced(board: Leaderboard) -> str:
    if not is_worth_showing(board):
        return ""
    head, lines = balanced_table(board)
    title = f'<h3 class="later">{TITLE}</h3>'
    return f'{title}{text_table(board, TITLE, head, lines)}<p class="small">{EXPLANATION}</p>'


def _all_metrics(board: Leaderboard) -> str:
    if not has_more(board):
        return ""
    title = f'<h3 class="later">{ALL_METRICS}</h3>'
    means = text_table(board, ALL_METRICS, *metrics_table(board))
    return f'{title}{means}<p class="small">{escape(metrics_sentence(board))}</p>'


def _classes_section(board: Leaderboard, panels: Panels) -> str:
    if not has_classes(board):
        return ""
    drawn = panels.of_runs.get("confusion")
    picture = _figure(drawn, "wide") if drawn else ""
    if has_confusion_tables(board):
        picture = confusion_tables(board)
    return (
        f"<section><h2>Classes</h2>{text_table(board, 'Classes', *class_table(board))}"
        f'<p class="small">{escape(classes_sentence(board))}</p>{picture}</section>'
    )


def _floor(board: Leaderboard) -> str:
    sentence = floor_sentence(board)
    return f"<p>{escape(sentence)}</p>" if sentence else ""


def _curves_section(boards: Sequence[Leaderboard], panels: Panels) -> str:
    if not panels.by_metric:
        return (
            "<section><h2>Learning curves</h2><p>Figures are missing, because matplotlib is not "
            'installed. Run <code>pip install "fedcord[plots]"</code> and build the report again.'
            "</p></section>"
        )

    def part(board: Leaderboard) -> str:
        own = panels.of(board)
        figures = "".join(_figure(own[name]) for name in ("rounds", "traffic") if name in own)
        if figures:
            return f'<div class="figures">{figures}</div>'
        metric = board.metric
        again = "" if metric.over_clients else f" Runs made with --metric {metric.name} measure it."
        said = f"{metric.title} was measured of the final model only.{again}"
        return f"<p>{escape(said)}</p>"

    aligned = panels.of_runs.get("alignment")
    more = _figure(aligned, "wide") if aligned else ""
    return f"<section><h2>Learning curves</h2>{_by_metric(boards, part)}{more}</section>"


def _clients_section(boards: Sequence[Leaderboard], panels: Panels) -> str:
    board = boards[0]
    drawn = panels.of_runs.get("clients")
    parts = [_figure(drawn, "wide")] if drawn else []
    parts += [client_tables(board)] if has_client_table(board) else []
    if any(row.over_clients for own in boards for row in own.rows):
        parts += [_by_metric(boards, _over_clients)]
    for kind in group_kinds(board):
        head, lines = group_table(board, kind)
        parts.append(
            f'<h3 class="later">Accuracy per {escape(kind)}, % (95 % interval: Student t on the '
            f"logit scale)</h3>{text_table(board, f'Accuracy per {kind}', head, lines)}"
        )
    return f"<section><h2>Clients</h2>{''.join(parts)}</section>" if parts else ""


def _over_clients(board: Leaderboard) -> str:
    """How clients differ, method by method; nothing where that was not measured."""
    metric = METRICS[DEFAULT] if board.metric.over_clients else board.metric
    lines = [
        [row.name, *(score(value, metric) for value in dataclasses.astuple(own))]
        for row in board.rows
        if (own := row.over_clients) is not None
    ]
    if not lines:
        return ""
    head = ["algorithm", "mean", "worst client", "worst tenth", "standard deviation"]
    unit = ", %" if metric.is_share else ""
    return (
        f'<h3 class="later">{escape(metric.title)} on the clients\' own data{unit}</h3>'
        f'<div class="narrow">{text_table(board, "How clients differ", head, lines)}</div>'
    )


def _costs_section(boards: Sequence[Leaderboard], panels: Panels) -> str:
    board = boards[0]
    head = ["algorithm", "rounds", "sent by clients", "sent to clients", "traffic", "time"]
    lines = []
    for row in board.rows:
        number = methods_of(board)[row.name]
        sizes = (row.bytes_up, row.bytes_down, row.num_bytes)
        cells = [
            Cell(to_runs(escape(row.name), number, is_name=True)),
            Cell(_rounds(row), sum(len(run.metrics) for run in row.runs)),
            *(Cell(to_runs(byte_size(size), number), size) for size in sizes),
            Cell(to_runs(duration(row.seconds), number), row.seconds),
        ]
        lines.append(Line(cells, number))
    refused = [
        f"{escape(row.name)}: {counted(row.num_refused, 'update')} refused on arrival."
        for row in board.rows
        if row.num_refused
    ]
    # whether there is anything to choose depends on bytes alone, not on the metric
    is_tradeoff = frontier(board).is_tradeoff

    def part(board: Leaderboard) -> str:
        panel = panels.of(board).get("pareto")
        return _figure(panel, "wide") if panel else ""

    # the page's script puts its slider there
    budget = '<div id="budget"></div>'
    sentences = _by_metric(boards, lambda own: f"<p>{escape(frontier(own).sentence)}</p>")
    choices = f"{sentences}{budget}{_by_metric(boards, part)}" if is_tradeoff else ""
    return (
        f"<section><h2>Costs</h2>{table('Costs', [*map(Cell, head)], lines, kind='sortable')}"
        '<p class="small">Per run, mean over seeds; traffic is the sum over all clients and rounds.'
        f" Times compare only on one machine under one load. {' '.join(refused)}</p>"
        f"{_complete(board)}{choices}</section>"
    )


def _complete(board: Leaderboard) -> str:
    if not any(row.cost.is_known for row in board.rows):
        return ""
    costs = costs_of(board)
    said = f"{COMPLETELY} {compute_sentence(costs)}".strip()
    return (
        f'<h3 class="later">{COMPLETE}</h3>{text_table(board, COMPLETE, *cost_table(costs))}'
        f'<p class="small">{escape(said)}</p>'
    )


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rounds(row: Row) -> str:
    done = sorted({sum(not e.is_probe for e in run.metrics) for run in row.runs})
    return str(done[0]) if len(done) == 1 else f"{done[0]}–{done[-1]}"


def _figure(panel: Panel, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f"<figure{name}>{panel.svg}<figcaption>{escape(panel.caption)}</figcaption></figure>"
