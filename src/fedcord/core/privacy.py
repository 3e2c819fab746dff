"""What noise guarantees: the statement that a run with differential privacy ends with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PrivacySpent:
    """The guarantee of a whole run.

    Attributes:
        epsilon: the privacy loss ε.
        delta: the chance δ of a larger one.
        unit: whose presence is hidden: `client` or `example`.
        statement: what may be claimed and under which conditions, in words.
    """

    epsilon: float
    delta: float
    unit: str
    statement: str


class AccountsPrivacy(Protocol):
    """The verb of `Traits.accounts_privacy`."""

    def privacy_spent(self, examples: Sequence[int], rounds: int) -> PrivacySpent:
        """What all rounds together guarantee.

        Args:
            examples: training examples of every client that may take part.
            rounds: how many there were.
        """
        ...
