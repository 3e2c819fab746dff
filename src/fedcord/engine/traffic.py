"""Bytes that passed, by what they passed for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal[
    "training",
    "key exchange",
    "key shares",
    "unmasking",
    "personalisation",
    "evaluation",
    "roll call",
    "memory",
]
"""What bytes pass for; memory moves in simulations only."""

ROUND: tuple[Phase, ...] = ("training", "key exchange", "key shares", "unmasking")
"""What belongs to a round; all but the first are for masks."""

WEIGHT_BYTES = 8
"""What an update's weight takes on the wire, beside its tensors."""


@dataclass
class Traffic:
    """Bytes that passed in one phase.

    Attributes:
        up: tensors and weights that clients sent; the same on every engine.
        down: tensors that clients were sent; the same on every engine.
        framed_up: whole messages, where the transport encodes them.
        framed_down: whole messages, where the transport encodes them.
    """

    up: int = 0
    down: int = 0
    framed_up: int = 0
    framed_down: int = 0
