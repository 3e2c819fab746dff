"""What each round of accord is for, and what a client must have been sent for it."""

from __future__ import annotations

from enum import Enum

from fedcord.algorithms.accord.joint_features import CHOSEN, ENCODER
from fedcord.algorithms.analytic.closed_form import WEIGHT
from fedcord.core.contract import ClientId
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors


class Phase(Enum):
    """What a round is for."""

    ROLL_CALL = "class counts"
    ENCODE = "encoders"
    SOLVE = "sums"
    REFINE = "encoders again"
    MOMENTS = "moments"
    PRODUCTS = "products"


SUMMED = (Phase.SOLVE, Phase.MOMENTS, Phase.PRODUCTS)
"""What needs the sum of everybody's messages only."""


def planned(asks_first: bool, refinements: int, products: int) -> tuple[Phase, ...]:
    """What each round of a run is for; with products, the head is found without a Gram matrix."""
    first = (Phase.ROLL_CALL,) if asks_first else ()
    if products:
        return (*first, Phase.ENCODE, Phase.MOMENTS, *(Phase.PRODUCTS,) * products)
    return (*first, Phase.ENCODE, Phase.SOLVE, *(Phase.REFINE, Phase.SOLVE) * refinements)


def phase_at(phases: tuple[Phase, ...], round_: int, shared: Tensors) -> Phase:
    """The phase of a round, if what was sent belongs to it.

    Raises:
        ProtocolError: there is no such round, or an earlier phase was left out.
    """
    if round_ >= len(phases):
        raise ProtocolError(
            f"accord has {len(phases)} rounds ({', '.join(p.value for p in phases)}) and was asked "
            f"for number {round_ + 1}; start a new run."
        )
    phase = phases[round_]
    missing = _missing(phase, phases, shared)
    if missing is not None:
        raise ProtocolError(
            f"round {round_ + 1} of accord is for {phase.value}, but {missing} not been sent; the "
            f"rounds must come in order: {', '.join(p.value for p in phases)}."
        )
    return phase


def is_asked(shared: Tensors, client: ClientId | None) -> bool:
    """Whether this client's encoder is wanted; everybody's is while nobody has been chosen."""
    return CHOSEN not in shared or client in shared[CHOSEN].tolist()


def _missing(phase: Phase, phases: tuple[Phase, ...], shared: Tensors) -> str | None:
    if phase is Phase.PRODUCTS:  # what it needs is with clients, and it ends when nothing is sent
        return None
    chosen_first = Phase.ROLL_CALL in phases
    if phase is Phase.ROLL_CALL or (phase is Phase.ENCODE and not chosen_first):
        return None
    if CHOSEN not in shared:
        return "who was chosen has"
    if phase is Phase.ENCODE:
        return None
    held = {name.split(".")[1] for name in shared if name.startswith(f"{ENCODER}.")}
    absent = [client for client in shared[CHOSEN].tolist() if str(client) not in held]
    if absent:
        return f"the encoders of clients {', '.join(map(str, absent))} have"
    if phase is Phase.REFINE and WEIGHT not in shared:
        return "the head has"
    return None
