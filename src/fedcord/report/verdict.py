"""The one sentence a reader takes away, which must not say more than the seeds can show.

A method that did not train or failed on a seed is marked in it wherever it is named.
"""

from __future__ import annotations

from fedcord.metrics.registry import DEFAULT, Metric
from fedcord.report.leaderboard import Leaderboard
from fedcord.report.numbers import counted, listed, p_value
from fedcord.report.row import Row
from fedcord.report.scores import score, score_bracket, with_unit
from fedcord.report.tuning import tuning_verdict
from fedcord.statistics import MeanInterval, PairedDifference

LEVEL = 0.05
"""Corrected p below this is called a difference."""


def verdict(board: Leaderboard) -> str:
    """The outcome in plain words: who is ahead, by how much, how sure, on what terms."""
    text = f"{_compared(board)}{_failed(board)}{_untrained(board)}"
    terms = tuning_verdict(board.rows)
    return f"{text} {terms}" if terms else text


def _compared(board: Leaderboard) -> str:
    best = board.best
    if len(board.rows) == 1:
        metric, own = board.metric, best.score
        interval = f" {score_bracket(own, metric, 1)}" if own.has_interval else ""
        test = "" if metric.over_clients else "test "
        return (
            f"{best.label} reaches {with_unit(own.mean, metric, 1)}{interval} {test}{metric.words} "
            f"on {counted(own.n, 'seed')}; there is no other algorithm to compare it with."
        )
    second = board.rows[1]
    difference = second.difference
    if difference is None:
        return f"{best.label} and {second.label} share no seed, so nothing can be said of them."
    seeds = counted(difference.n, "seed")
    # a method that failed on a seed stands lower in the table, and may be higher on the others
    sign = board.metric.sign
    first, other = (best, second) if sign * difference.mean <= 0 else (second, best)
    if difference.n == 1:
        return (
            f"{first.label} is {_size(difference, board.metric)} {_above(board.metric)} "
            f"{other.label} on the one seed there is, and one seed cannot "
            "show a difference; run at least five."
            if difference.mean
            else f"{best.label} and {second.label} are equal on the one seed there is; run five."
        )
    if _is_shown(second):
        evidence = _evidence(second, difference)
        return f"{first.label} is ahead of {other.label} by {evidence}, {seeds}." + _others(board)
    if difference.t_p is None and difference.mean == 0:
        text = (
            f"{best.label} and {second.label} have equal {board.metric.words} on each of {seeds}."
        )
    elif difference.t_p is None:
        text = (
            f"{first.label} is {_size(difference, board.metric)} {_above(board.metric)} "
            f"{other.label} on every one of {seeds}; "
            "equal differences leave no spread for a t test."
        )
    else:
        counting = (
            f" once all {board.num_comparisons} comparisons are counted"
            if difference.t_p < LEVEL
            else ""
        )
        text = (
            f"No difference between {best.label} and {second.label} that these {seeds} can show"
            f"{counting}: {_evidence(second, difference)}."
        )
    return text + _others(board)


def _failed(board: Leaderboard) -> str:
    names = [own.name for own in board.failed]
    return f" {listed(names)} failed on every seed." if names else ""


def _untrained(board: Leaderboard) -> str:
    """What a comparison with a method that did not train is worth."""
    names = [row.name for row in board.rows if row.untrained]
    if not names or len(board.rows) == 1:
        return ""
    return f" What {listed(names)} could reach is not known: see the notes on training."


def _is_shown(row: Row) -> bool:
    """Whether a difference between the best and this row is shown."""
    return row.p_holm is not None and row.p_holm < LEVEL


def _is_behind(row: Row) -> bool:
    """Whether the best is shown to be ahead of this row."""
    gap = None if row.difference is None else row.metric.sign * row.difference.mean
    return _is_shown(row) and gap is not None and gap < 0


def _evidence(row: Row, difference: PairedDifference) -> str:
    p = p_value(row.p_holm)
    p_text = f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}"
    own = difference.interval
    own = own if difference.mean > 0 else _turned(own)
    interval = score_bracket(own, row.metric, _decimals(difference))
    return f"{_size(difference, row.metric)} {interval}, {p_text}"


def _others(board: Leaderboard) -> str:
    behind = [row.label for row in board.rows[2:] if _is_behind(row)]
    if not behind:
        return ""
    also = "also " if _is_behind(board.rows[1]) else ""
    return f" {board.best.name} is {also}ahead of {listed(behind)}."


def _size(difference: PairedDifference, metric: Metric) -> str:
    """How large it is and of what; a point without more words is one of accuracy."""
    size = score(abs(difference.mean), metric, _decimals(difference))
    if metric.name == DEFAULT:
        return f"{size} points"
    return f"{size} points of {metric.words}" if metric.is_share else f"{size} in {metric.words}"


def _above(metric: Metric) -> str:
    return "above" if metric.is_higher_better else "below"


def _decimals(difference: PairedDifference) -> int:
    return 1 if abs(difference.mean) >= 0.0095 else 2


def _turned(interval: MeanInterval) -> MeanInterval:
    """The interval of best minus row from that of row minus best."""
    if interval.low is None or interval.high is None:
        return interval
    return MeanInterval(
        interval.n,
        -interval.mean,
        -interval.high,
        -interval.low,
        interval.confidence,
        interval.method,
    )
