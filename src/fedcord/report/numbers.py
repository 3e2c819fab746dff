"""Numbers as people read them: one way of writing each kind, used by every output."""

from __future__ import annotations

from fedcord.statistics.intervals import MeanInterval

NOTHING = "–"
"""Stands where there is no number; never NaN, never 0."""


def percent(share: float | None, decimals: int = 2) -> str:
    """A share as a percentage without its sign.

    >>> percent(0.8731)
    '87.31'
    """
    return NOTHING if share is None else fixed(100 * share, decimals)


def points(difference: float, decimals: int = 2) -> str:
    """A difference of shares in percentage points, always with its sign.

    >>> points(-0.0123)
    '−1.23'
    """
    text = fixed(100 * difference, decimals)
    return text if text.startswith("−") or not text.strip("0.") else "+" + text


def bracket(interval: MeanInterval, decimals: int = 2, scale: float = 100) -> str:
    """The ends of an interval, of shares in percent, or why there is none."""
    if interval.low is None or interval.high is None:
        return interval.reason
    return f"[{fixed(scale * interval.low, decimals)}, {fixed(scale * interval.high, decimals)}]"


def cell_bracket(interval: MeanInterval) -> str:
    """`bracket` for a table's cell, where a long reason would push the columns apart."""
    if interval.has_interval or interval.n == 1:
        return bracket(interval)
    return "no interval"


def p_value(p: float | None) -> str:
    """A p-value without false precision.

    >>> p_value(0.0204), p_value(0.00002)
    ('0.020', '<0.001')
    """
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def byte_size(size: float) -> str:
    """Bytes in decimal units.

    >>> byte_size(12_345_678)
    '12.3 MB'
    """
    if size < 1000:
        return f"{size:.0f} B"
    units = ["kB", "MB", "GB", "TB"]
    size /= 1000
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"


def duration(seconds: float) -> str:
    """A time span in at most two units.

    >>> duration(0.042), duration(75), duration(7260)
    ('42 ms', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "seed"), counted(5, "seed")
    ('1 seed', '5 seeds')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def listed(names: list[str]) -> str:
    """Names as a phrase.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals.

    >>> fixed(-0.5, 1), fixed(-0.001, 2)
    ('−0.5', '0.00')
    """
    text = f"{value:.{decimals}f}"
    if not text.strip("-0."):
        text = text.lstrip("-")  # no minus before a rounded zero
    return text.replace("-", "−")
