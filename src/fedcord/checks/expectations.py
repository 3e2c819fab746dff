"""What an algorithm promises beyond the contract, and how closely it is held to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedcord.checks.compare import difference
from fedcord.checks.tiny_task import NUM_CLASSES
from fedcord.core.contract import Algorithm, ServerState, Update
from fedcord.core.errors import ConfigError
from fedcord.core.tensors import prefixed, select

Identity = Callable[[ServerState, Update, ServerState], str | None]
"""(state before, the only client's update, state after) to what is wrong, or None."""


@dataclass(frozen=True)
class Limit:
    """Two configurations that must give the same model (`ServerState.model`).

    Attributes:
        name: the statement, such as `proximal_weight = 0 is FedAvg`.
        algorithm: the configuration at its limiting value.
        equals: what it reduces to.
        unlike: a configuration away from the limit, which must give something else; without it a
            parameter that is read nowhere would pass.
        tensors: prefix of the tensors to compare; empty for all.
        tolerance: relative; 0 asks for equal bits.
    """

    name: str
    algorithm: Algorithm
    equals: Algorithm
    unlike: Algorithm | None = None
    tensors: str = ""
    tolerance: float = 0.0


def shared_model_is_update(before: ServerState, update: Update, after: ServerState) -> str | None:
    """The identity of model averaging: one client alone decides, bit for bit."""
    sent, kept = select(update.tensors, "model"), select(after.shared, "model")
    return difference(prefixed("model", kept), prefixed("model", sent))


@dataclass(frozen=True)
class Expectations:
    """How `check_algorithm` judges one algorithm; the defaults suit methods that average models.

    Attributes:
        rounds: rounds of most checks, where the algorithm leaves them to the user.
        is_random: whether another seed must change something; None finds out by whether the
            algorithm asks for a random stream.
        identity: what the server must know after hearing one client that holds all data. `auto`
            is `shared_model_is_update` where clients send the very `model.*` they receive, and
            nothing elsewhere; None states nothing.
        order_tolerance: relative gap that another order of updates may make.
        additive_tolerance: relative gap that splitting a client may make.
        batch_tolerance: relative gap in scores that another batch may make.
        limits: configurations that reduce to others.
        private_may_be_sent: patterns (`velocity.*`) of private tensors whose values may also be
            shared: server momentum, for one, equals any weight that started at zero.
        memory_may_be_sent: patterns (`model.*`) of memory tensors that a client may also reveal.
        learns_at_least: accuracy to reach on each tiny task; chance is one third.
        learning_rounds: rounds to reach it in, where the algorithm leaves them to the user.
        learns_with: `server` tests the shared model; `clients` every client's own.
    """

    rounds: int = 2
    is_random: bool | None = None
    identity: Identity | Literal["auto"] | None = "auto"
    order_tolerance: float = 1e-5
    additive_tolerance: float = 1e-5
    batch_tolerance: float = 1e-5
    limits: tuple[Limit, ...] = ()
    private_may_be_sent: tuple[str, ...] = ()
    memory_may_be_sent: tuple[str, ...] = ()
    learns_at_least: float = 0.8
    learning_rounds: int = 10
    learns_with: Literal["server", "clients"] = "server"

    def __post_init__(self) -> None:
        problems = [
            f"Expectations.{name} = {value}: must be at least 1."
            for name, value in (("rounds", self.rounds), ("learning_rounds", self.learning_rounds))
            if value < 1
        ]
        if not 1 / NUM_CLASSES < self.learns_at_least <= 1:
            problems.append(
                f"Expectations.learns_at_least = {self.learns_at_least}: must be above chance "
                f"(1/{NUM_CLASSES}) and at most 1, or the check could not fail."
            )
        if problems:
            raise ConfigError(problems)
