"""The report as one HTML file that asks the network for nothing and escapes all it has read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fedcord.metrics.registry import DEFAULT, METRICS
from fedcord.report.balanced import (
    EXPLANATION,
    TITLE,
    balanced_table,
    floor_sentence,
    is_worth_showing,
)
from fedcord.report.classes import class_table, classes_sentence, has_classes
from fedcord.report.frontier import frontier
from fedcord.report.groups import group_kinds, group_table
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.metrics_table import TITLE as ALL_METRICS
from fedcord.report.metrics_table import has_more, metrics_sentence, metrics_table
from fedcord.report.numbers import NOTHING, byte_size, counted, duration, p_value
from fedcord.report.origin import origin_section
from fedcord.report.page_style import CSS
from fedcord.report.row import Row
from fedcord.report.scores import (
    gap_heading,
    score,
    score_cell_bracket,
    score_gap,
    score_heading,
)
from fedcord.report.subject import heading, without_folders
from fedcord.report.tuning import (
    ALL_TRIALS,
    entries_of,
    summary_table,
    trials_table,
    tuning_sentence,
)
from fedcord.report.tuning import TITLE as TUNING
from fedcord.report.verdict import verdict


@dataclass(frozen=True)
class Panel:
    """A figure on the page.

    Attributes:
        svg: trusted markup from `canvas.inline_svg`.
        caption: plain text.
    """

    svg: str
    caption: str


@dataclass(frozen=True)
class Panels:
    """The page's figures; None when matplotlib is absent or there is nothing to draw."""

    rounds: Panel | None = None
    traffic: Panel | None = None
    final: Panel | None = None
    clients: Panel | None = None
    alignment: Panel | None = None
    confusion: Panel | None = None
    pareto: Panel | None = None


def render_page(board: Leaderboard, panels: Panels) -> str:
    """The whole page."""
    config = board.best.runs[0].config
    names = [row.name for row in board.rows]
    title = escape(heading(names, str(config.get("dataset", "unknown data"))))
    parts = [
        _header(board, config, title),
        _leaderboard_section(board, panels),
        _notes_section(board),
        _tuning_section(board),
        _classes_section(board, panels),
        _curves_section(board, panels),
        _clients_section(board, panels),
        _costs_section(board, panels),
        origin_section(board),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # a second lock: even a mistake in here could not make a browser fetch anything
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _header(board: Leaderboard, config: Mapping[str, object], title: str) -> str:
    partition = board.best.runs[0].partition
    facts = [str(config["partition"])] if "partition" in config else []
    facts += [counted(len(partition.counts), "client")] if partition is not None else []
    models = {_joined(row.runs[0].config.get("model", "")) for row in board.rows} - {""}
    facts += [f"model {without_folders(model)}" for model in models if len(models) == 1]
    facts += [counted(board.best.score.n, "seed")]
    return (
        f'<header><p class="kicker">fedcord report · {escape(" · ".join(facts))}</p>'
        f'<h1>{title}</h1><p class="verdict">{escape(verdict(board))}</p></header>'
    )


def _notes_section(board: Leaderboard) -> str:
    """After the result: what qualifies it, each thing once."""
    if not board.notes:
        return ""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in board.notes)
    return f"<section><h2>Notes</h2>{notes}</section>"


def _tuning_section(board: Leaderboard) -> str:
    known = entries_of(board.rows)
    if not known:
        return ""
    return (
        f"<section><h2>{TUNING}</h2>{_plain_table(*summary_table(known))}"
        f'<p class="small">{escape(tuning_sentence(known, board.metric))}</p>'
        f'<h3 style="margin-top:2rem">{ALL_TRIALS}</h3>{_plain_table(*trials_table(known))}'
        "</section>"
    )


def _leaderboard_section(board: Leaderboard, panels: Panels) -> str:
    is_compared = len(board.rows) > 1
    metric = board.metric
    head = ["algorithm", "seeds", escape(score_heading(metric, ","))]
    head += [gap_heading("to the best", metric), "p", "p, sign flip"] if is_compared else []
    head += ["clients, %" if metric.is_share else "clients", "traffic per run", "time per run"]
    rows = []
    for row in board.rows:
        cells = [
            _marked(row.name, row.mark),
            escape(row.num_seeds),
            _ranged(score(row.score.mean, metric), score_cell_bracket(row.score, metric)),
        ]
        if row.difference is not None:
            interval = score_cell_bracket(row.difference.interval, metric)
            cells += [
                _ranged(score_gap(row.difference.mean, metric), interval),
                p_value(row.p_holm),
                p_value(row.difference.permutation_p),
            ]
        elif is_compared:
            cells += ["best" if row is board.best else NOTHING, NOTHING, NOTHING]
        over = row.over_clients
        cells += [score(None if over is None else over.mean, metric), byte_size(row.num_bytes)]
        cells += [duration(row.seconds)]
        rows.append((cells, row is board.best and is_compared))
    for own in board.failed:
        cells = [_marked(own.name, "failed on every seed"), f"0 of {len(own.failures)}"]
        rows.append(([*cells, *[NOTHING] * (len(head) - len(cells))], False))
    text = f'<p class="small">{escape(board.method)}'
    if is_compared:
        text += (
            " Intervals are per comparison, not corrected. The sign-flip p is exact and assumes "
            f"only symmetry; with {counted(board.best.score.n, 'pair')} it cannot fall below "
            f"{p_value(min(1.0, 2.0 ** (1 - board.best.score.n)))}."
            if 1 < board.best.score.n <= 15
            else ""
        )
    notes = "".join(
        f'<p class="small">{escape(row.name)}: {escape(row.difference.note)}.</p>'
        for row in board.rows
        if row.difference is not None and row.difference.note
    )
    figure = _figure(panels.final) if panels.final else ""
    return (
        f"<section><h2>Leaderboard</h2>{_table(head, rows)}{text}</p>{notes}{_balanced(board)}"
        f"{_floor(board)}"
        f"{figure}{_all_metrics(board)}</section>"
    )


def _balanced(board: Leaderboard) -> str:
    if not is_worth_showing(board):
        return ""
    head, lines = balanced_table(board)
    title = f'<h3 style="margin-top:2rem">{TITLE}</h3>'
    return f'{title}{_plain_table(head, lines)}<p class="small">{EXPLANATION}</p>'


def _all_metrics(board: Leaderboard) -> str:
    if not has_more(board):
        return ""
    title = f'<h3 style="margin-top:2rem">{ALL_METRICS}</h3>'
    sentence = escape(metrics_sentence(board))
    return f'{title}{_plain_table(*metrics_table(board))}<p class="small">{sentence}</p>'


def _classes_section(board: Leaderboard, panels: Panels) -> str:
    if not has_classes(board):
        return ""
    picture = _figure(panels.confusion, "wide") if panels.confusion else ""
    return (
        f"<section><h2>Classes</h2>{_plain_table(*class_table(board))}"
        f'<p class="small">{escape(classes_sentence(board))}</p>{picture}</section>'
    )


def _floor(board: Leaderboard) -> str:
    sentence = floor_sentence(board)
    return f"<p>{escape(sentence)}</p>" if sentence else ""


def _curves_section(board: Leaderboard, panels: Panels) -> str:
    drawn = [panel for panel in (panels.rounds, panels.traffic) if panel is not None]
    if not drawn and panels.final is not None:
        metric = board.metric
        again = "" if metric.over_clients else f" Runs made with --metric {metric.name} measure it."
        return (
            f"<section><h2>Learning curves</h2><p>{escape(metric.title)} was measured of the final "
            f"model only.{escape(again)}</p></section>"
        )
    if not drawn:
        return (
            "<section><h2>Learning curves</h2><p>Figures are missing, because matplotlib is not "
            'installed. Run <code>pip install "fedcord[plots]"</code> and build the report again.'
            "</p></section>"
        )
    figures = "".join(_figure(panel) for panel in drawn)
    more = _figure(panels.alignment, "wide") if panels.alignment else ""
    return f'<section><h2>Learning curves</h2><div class="figures">{figures}</div>{more}</section>'


def _clients_section(board: Leaderboard, panels: Panels) -> str:
    parts = [_figure(panels.clients, "wide")] if panels.clients else []
    parts += [_over_clients(board)] if any(row.over_clients for row in board.rows) else []
    for kind in group_kinds(board):
        head, lines = group_table(board, kind)
        parts.append(
            f'<h3 style="margin-top:2rem">Accuracy per {escape(kind)}, % (95 % interval: Student t '
            "on the logit scale)</h3>" + _plain_table(head, lines)
        )
    return f"<section><h2>Clients</h2>{''.join(parts)}</section>" if parts else ""


def _over_clients(board: Leaderboard) -> str:
    """How clients differ, method by method."""
    metric = METRICS[DEFAULT] if board.metric.over_clients else board.metric
    lines = [
        [row.name, *(score(value, metric) for value in dataclasses.astuple(own))]
        for row in board.rows
        if (own := row.over_clients) is not None
    ]
    head = ["algorithm", "mean", "worst client", "worst tenth", "standard deviation"]
    unit = ", %" if metric.is_share else ""
    return (
        f'<h3 style="margin-top:2rem">{escape(metric.title)} on the clients\' own data{unit}</h3>'
        f'<div class="narrow">{_plain_table(head, lines)}</div>'
    )


def _costs_section(board: Leaderboard, panels: Panels) -> str:
    head = ["algorithm", "rounds", "sent by clients", "sent to clients", "traffic", "time"]
    rows = [
        (
            [
                escape(row.name),
                _rounds(row),
                byte_size(row.bytes_up),
                byte_size(row.bytes_down),
                byte_size(row.num_bytes),
                duration(row.seconds),
            ],
            False,
        )
        for row in board.rows
    ]
    refused = [
        f"{escape(row.name)}: {counted(row.num_refused, 'update')} refused on arrival."
        for row in board.rows
        if row.num_refused
    ]
    front = frontier(board)
    choice = f"<p>{escape(front.sentence)}</p>" if front.is_tradeoff else ""
    choice += _figure(panels.pareto, "wide") if panels.pareto else ""
    return (
        f"<section><h2>Costs</h2>{_table(head, rows)}"
        '<p class="small">Per run, mean over seeds; traffic is the sum over all clients and rounds.'
        f" Times compare only on one machine under one load. {' '.join(refused)}</p>"
        f"{choice}</section>"
    )


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rounds(row: Row) -> str:
    done = sorted({sum(not e.is_probe for e in run.metrics) for run in row.runs})
    return str(done[0]) if len(done) == 1 else f"{done[0]}–{done[-1]}"


def _marked(name: str, mark: str) -> str:
    """A name with what must stand beside it."""
    return escape(name) + (f'<span class="mark">{escape(mark)}</span>' if mark else "")


def _ranged(number: str, interval: str) -> str:
    return f'{escape(number)}<span class="range">{escape(interval)}</span>'


def _figure(panel: Panel, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f"<figure{name}>{panel.svg}<figcaption>{escape(panel.caption)}</figcaption></figure>"


def _plain_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of texts, none of them marked."""
    return _table([*map(escape, head)], [([*map(escape, line)], False) for line in lines])


def _table(head: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """A table of trusted cells; the flag marks the best row."""
    heading = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    best = ' class="best"'
    body = "".join(
        f"<tr{best if is_best else ''}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for cells, is_best in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )
