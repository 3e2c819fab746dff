"""What can be attacked, and what an attack on it has shown."""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.audit.rates import Limit, Rates


@dataclass(frozen=True)
class Exposure:
    """Something that can be attacked.

    Attributes:
        name: what it is.
        seen_by: who has it.
    """

    name: str
    seen_by: str


@dataclass(frozen=True)
class Finding:
    """One attack, on one client's candidates or over several clients.

    Attributes:
        target: what was attacked.
        seen_by: who has it.
        attack: how.
        rates: how well it did.
        limit: what noise leaves to any attack on the sums alone; None where there is none.
    """

    target: str
    seen_by: str
    attack: str
    rates: Rates
    limit: Limit | None = None
