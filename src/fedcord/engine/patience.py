"""How long the server waits, and for how many."""

from __future__ import annotations

from dataclasses import dataclass

from fedcord.core.params import check_params, param


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom.

    Attributes:
        quorum: the share of the clients asked that must answer for a round to count.
        deadline: seconds a round waits for answers; None: as long as it takes.
    """

    quorum: float = param(1.0, "share of clients that must answer", at_least=0, at_most=1)
    deadline: float | None = param(None, "seconds a round waits; none: no limit", at_least=0)

    def __post_init__(self) -> None:
        check_params(self)
