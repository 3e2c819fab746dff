"""How many sites must stay to the end for their sum to be read."""

from __future__ import annotations

import math

from fedcord.core.errors import ProtocolError

LEAST_SITES = 2
"""With one alone the sum is its message."""


def threshold_of(share: float, count: int) -> int:
    """The sites that must stay, of so many: the share, but always more than half, and two.

    More than half, so that no two groups that have nobody in common can both open something.
    """
    return max(LEAST_SITES, count // 2 + 1, math.ceil(share * count - 1e-9))


def check_threshold(threshold: int, count: int) -> None:
    """Refuse one that would let two groups open different things, or that cannot be reached."""
    if not max(LEAST_SITES, count // 2 + 1) <= threshold <= count:
        raise ProtocolError(
            f"a threshold of {threshold} among {count} sites; it must be at least {LEAST_SITES}, "
            "more than half of them and at most all."
        )
