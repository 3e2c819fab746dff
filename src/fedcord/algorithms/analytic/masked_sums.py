"""Masked sums in two rounds: first who is there, then everybody's sums with masks towards the rest.

    round 0   up: that one is there             down, with round 1: everybody who is
    round 1   up: fixed-point sums, masked      the server reads their sum and nothing else

What is hidden: sums, class counts and numbers of samples of every single client. What is not: who
takes part, and the sum. Secrets come from the run's seed, see `secagg`. A client that announced
itself and does not answer leaves its masks in the sum, which is refused; a deployment would let
survivors reveal their secrets with it (`secagg.unmasked_sum`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from fedcord.algorithms.analytic.secagg import LEAST_CLIENTS, mask, unmasked_sum
from fedcord.core.contract import ClientId, ClientResult, Env, ServerState, Update, Updates
from fedcord.core.errors import ProtocolError
from fedcord.core.names import clients_listed
from fedcord.core.tensors import Tensors, TensorSpec

PRESENT, COHORT = "masks.present", "masks.cohort"
PRESENCE: Mapping[str, TensorSpec] = {PRESENT: TensorSpec((), torch.int64)}
"""What is sent in the first round."""


def announce() -> ClientResult:
    """A client's first round."""
    return ClientResult(Update({PRESENT: torch.ones((), dtype=torch.int64)}, weight=1.0))


def meet(state: ServerState, updates: Updates) -> ServerState:
    """The server's first round: everybody is told who is there."""
    cohort = torch.tensor(sorted(client for client, _ in updates), dtype=torch.int64)
    if len(cohort) < LEAST_CLIENTS:
        raise ProtocolError(
            f"{len(cohort)} client(s) are there; a masked sum needs at least {LEAST_CLIENTS}, or "
            "it would be a single client's message. Use wire=fixed64, or more clients."
        )
    return state.next({**state.shared, COHORT: cohort})


def masked(update: Update, shared: Tensors, env: Env) -> Update:
    """A client's message with its masks; not even its number of samples is left in the open."""
    assert env.client is not None
    cohort = shared[COHORT].tolist()
    if env.client not in cohort:
        raise ProtocolError(
            f"{env.said(env.client)} has not announced itself, so nobody has masks towards it; "
            "masked sums need the same clients in both rounds: use participation = 1."
        )
    return Update(mask(update.tensors, env.client, cohort, env.seed), weight=1.0)


def opened(
    state: ServerState, updates: Updates, env: Env
) -> tuple[dict[str, Tensor], list[ClientId]]:
    """The server's second round: the plain sum of all messages, and whose they are."""
    cohort, arrived = state.shared[COHORT].tolist(), list[ClientId]()

    def messages() -> Iterator[tuple[ClientId, Tensors]]:
        for client, update in updates:
            arrived.append(client)
            yield client, update.tensors

    total = unmasked_sum(messages(), cohort, env.seed)
    gone = sorted(set(cohort) - set(arrived))
    if gone:
        raise ProtocolError(
            f"{len(gone)} of {len(cohort)} clients announced themselves and did not answer (client "
            f"{clients_listed(gone, env.names)}): the others' masks towards them are still in the "
            "sum. Start again with those that are there; recovery by revealed secrets is not part "
            "of the simulation."
        )
    return total, arrived
