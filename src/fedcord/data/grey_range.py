"""Which values of pictures with more than 8 bits of grey are black and white."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedcord.core.errors import DataError, shown
from fedcord.data.spec import DatasetSpec


@dataclass(frozen=True)
class GreyRange:
    """How 16-bit and float pictures are brought to 0..255.

    Attributes:
        low: the value that becomes 0, as do lower ones.
        high: the value that becomes 255, as do higher ones.
        beside_bytes: whether there are pictures of 8 bits among them, which are taken as they are.
    """

    low: float
    high: float
    beside_bytes: bool = False

    def __post_init__(self) -> None:
        numbers = (self.low, self.high)
        if not all(_is_finite(n) for n in numbers) or not isinstance(self.beside_bytes, bool):
            raise DataError(f"{shown(numbers)} is no range of grey values.")
        if self.low > self.high:
            raise DataError(
                f"grey values from {self.low:g} to {self.high:g}: give the lower first."
            )

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return asdict(self)

    @staticmethod
    def from_json(values: object) -> GreyRange:
        """What `to_json` was made from, every value checked."""
        if not isinstance(values, Mapping) or values.keys() != {"low", "high", "beside_bytes"}:
            raise DataError(f"{shown(values)} is no range of grey values.")
        return GreyRange(**values)


def stated_range(spec: DatasetSpec) -> GreyRange | None:
    """What the user says with `?range=LOW:HIGH`; None: the pictures decide."""
    text = spec.options.get("range")
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        found = GreyRange(float(low), float(high))
    except (ValueError, DataError):
        found = GreyRange(0, 0)
    if not colon or found.low == found.high:
        raise DataError(
            f"data set '{spec.name}': range={text} is not allowed; give the values that are black "
            "and white, the lower first, as in range=0:4095."
        )
    return found


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
