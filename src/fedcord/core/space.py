"""Where a tuned parameter is looked for: a range, evenly or by orders of magnitude, or a list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from fedcord.core.errors import ConfigError, shown
from fedcord.core.toml import parse_value

LOG, LINEAR = "log", "linear"
EXAMPLES = "local.lr=0.01:0.3:log, local.epochs=1:5 or local.optimizer=sgd,adam"
DIGITS = 4
"""Significant digits of a proposed value: more are noise, and unreadable in a table."""


@dataclass(frozen=True)
class Space:
    """Values that tuning may choose.

    Attributes:
        low: end of a range, itself allowed.
        high: the other end.
        scale: linear, or log: every order of magnitude is as likely as any other.
        values: the only values, where it is no range.
    """

    low: float = 0.0
    high: float = 1.0
    scale: str = LINEAR
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.values:
            return
        if self.scale not in (LOG, LINEAR):
            raise ConfigError(f"scale {shown(self.scale)}: must be log or linear.")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ConfigError(f"{self.low:g}:{self.high:g}: must be two numbers, the lower first.")
        if self.scale == LOG and self.low <= 0:
            raise ConfigError(f"{self.low:g}:{self.high:g}:log: must begin above 0.")

    @property
    def is_whole(self) -> bool:
        """Whether both ends are written as whole numbers, and so everything between is."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> Any:
        """The value at a share in [0, 1) of the way."""
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        low, high = float(self.low), float(self.high)
        if self.is_whole:  # each whole number has the same room, the ends too
            low, high = low - 0.5, high + 0.5
        if self.scale == LOG:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        return self.rounded(value)

    def rounded(self, value: Any) -> Any:
        """A value as it is written down: whole where all are, else of a few digits."""
        if self.values:
            return value
        if self.is_whole:
            return min(max(round(value), int(self.low)), int(self.high))
        return min(max(float(f"{value:.{DIGITS}g}"), float(self.low)), float(self.high))

    def like(self, value: object) -> Space:
        """The same for a parameter with this value: what is no whole number takes fractions."""
        if self.values or not isinstance(value, float):
            return self
        return replace(self, low=float(self.low), high=float(self.high))

    def holds(self, value: object) -> bool:
        """Whether a value is one of those."""
        if self.values:
            return value in self.values
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]

    def ends(self) -> tuple[Any, ...]:
        """Values that must be allowed if all are: the ends of a range, or every listed one."""
        return self.values or (self.low, self.high)

    def __str__(self) -> str:
        """As `--space` reads it."""
        if self.values:
            return ",".join(map(str, self.values))
        end = f":{LOG}" if self.scale == LOG else ""
        return f"{self.low:g}:{self.high:g}{end}"


def parse_space(text: str, called: str = "--space") -> tuple[str, Space]:
    """`key=low:high`, `key=low:high:log` or `key=a,b,c` to the key and its space.

    Args:
        text: as it was given.
        called: where, for messages.

    >>> parse_space("local.lr=0.01:0.3:log")
    ('local.lr', Space(low=0.01, high=0.3, scale='log', values=()))
    """
    key, equals, rest = text.partition("=")
    key = key.strip()
    if not equals or not key or not rest.strip():
        raise ConfigError(f"{called} {shown(text)}: expected {EXAMPLES}.")
    if ":" not in rest:
        return key, Space(values=tuple(parse_value(part.strip()) for part in rest.split(",")))
    low, high, *scale = rest.split(":")
    ends = [parse_value(low.strip()), parse_value(high.strip())]
    if len(scale) > 1 or not all(type(end) in (int, float) for end in ends):
        raise ConfigError(f"{called} {shown(text)}: expected {EXAMPLES}.")
    try:
        return key, Space(ends[0], ends[1], scale[0].strip() if scale else LINEAR)
    except ConfigError as error:
        raise ConfigError(f"{called} {shown(text)}: {error}") from error
