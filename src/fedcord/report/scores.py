"""How a metric is written: in percent where it is a share, as a plain number otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from fedcord.metrics.registry import Metric
from fedcord.report.numbers import NOTHING, bracket, fixed, percent, points
from fedcord.statistics import MeanInterval, mean_interval, share_interval

MORE = 2
"""Decimals that a plain number has more than a percentage, for the same precision."""


def score(value: float | None, metric: Metric, decimals: int = 2) -> str:
    """A value, without its unit."""
    if metric.is_share:
        return percent(value, decimals)
    return NOTHING if value is None else fixed(value, decimals + MORE)


def score_gap(difference: float, metric: Metric, decimals: int = 2) -> str:
    """A difference, always with its sign."""
    return points(difference if metric.is_share else difference / 100, decimals + _more(metric))


def score_bracket(interval: MeanInterval, metric: Metric, decimals: int = 2) -> str:
    """The ends of an interval, or why there is none."""
    scale = 100 if metric.is_share else 1
    return bracket(interval, decimals + _more(metric), scale)


def score_cell_bracket(interval: MeanInterval, metric: Metric) -> str:
    """`score_bracket` for a table's cell, where a long reason would push the columns apart."""
    if interval.has_interval or interval.n == 1:
        return score_bracket(interval, metric)
    return "no interval"


def with_unit(value: float, metric: Metric, decimals: int = 2) -> str:
    """A value in a sentence."""
    return f"{score(value, metric, decimals)}{f' {metric.unit}' if metric.unit else ''}"


def with_interval(own: MeanInterval, metric: Metric) -> str:
    """A mean in a sentence, and its interval if it has one."""
    mean = with_unit(own.mean, metric)
    return f"{mean} {score_bracket(own, metric)}" if own.has_interval else mean


def score_heading(metric: Metric, comma: str = "") -> str:
    """What stands above its column."""
    return f"{metric.words}{comma} {metric.unit}" if metric.unit else metric.words


def gap_heading(words: str, metric: Metric) -> str:
    """What stands above a column of differences."""
    return f"{words}, points" if metric.is_share else words


def score_interval(values: Sequence[float], metric: Metric) -> MeanInterval:
    """The mean over seeds; of a share within its bounds."""
    return share_interval(values) if metric.is_share else mean_interval(values)


def drawn(value: float, metric: Metric) -> float:
    """A value on the scale that figures have."""
    return 100 * value if metric.is_share else value


def interval_words(metric: Metric) -> str:
    """How its intervals are made."""
    if metric.is_share:
        return "Student t on the logit scale, which stays within 0 to 100 %"
    return "Student t"


def _more(metric: Metric) -> int:
    return 0 if metric.is_share else MORE
