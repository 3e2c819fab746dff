"""Clients that come late, bring more, or leave: exact, because the server holds nothing but sums.

    join      add the message, solve again        equals training with the client from the start
    join      another message of a known client   equals training with all its samples at once
    forget    subtract the message, solve again   equals training without the client

A factor is never down-dated; the system is always solved anew. What was released before a client
left still holds its data, and personal models must be made again by every client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, cast

import torch
from torch import Tensor

from fedcord.algorithms.analytic.ledger import LEDGER, fingerprint, ledger, ledger_rows
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.sum_messages import STATS, SUM, add_messages, check_tag
from fedcord.core.contract import Algorithm, ClientId, Env, ServerState, Update
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.names import clients_listed
from fedcord.core.tensors import Tensors, prefixed, select

SAME_MESSAGE = 1e-9
"""Largest relative gap between a client's message and what it sends again when it leaves."""

LEAST_EIGENVALUE = -1e-10
"""Relative to the mean eigenvalue, what finding eigenvalues itself may be off by. Further below it
than messages were rounded on their way, something was removed that had not been added."""


class HoldsSums(Protocol):
    """The verbs of `Traits.holds_sums`.

    The method's private state is what `add_messages` returns, and its result follows from it.
    """

    def agreed_tag(self, shared: Tensors, env: Env) -> int:
        """The tag of the features everybody must use."""
        ...

    def summed_rows(
        self, shared: Tensors, data: Examples, env: Env
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples as (what is summed of them [B, D], labels [B])."""
        ...

    def stats_of(self, sums: Tensors) -> SufficientStats:
        """Summed messages as statistics."""
        ...

    def rounding(self, sums: Tensors) -> float:
        """How far `stats_of` may be from the samples' own Gram matrix, as a spectral norm."""
        ...

    def result_of(self, sums: Tensors) -> dict[str, Tensor]:
        """What prediction needs, from summed messages."""
        ...

    def why_not_forget(self) -> str | None:
        """Why members cannot change exactly, or None when they can."""
        ...


def keeps_no_sums(name: str, algorithm: Algorithm) -> str:
    """Of a method without sums, why it has none; one that may have them says what is in the way."""
    said = f"{name} does not keep sums"
    if algorithm.traits.holds_sums is None:
        return said
    return f"{said} with these parameters ({cast(HoldsSums, algorithm).why_not_forget()})"


def join(
    algorithm: HoldsSums,
    state: ServerState,
    updates: Iterable[tuple[ClientId, Update]],
    env: Env,
) -> ServerState:
    """The finished state with further clients, or further samples of known ones, in it."""
    _check_exact(algorithm)
    sums = add_messages(state.private, updates, algorithm.agreed_tag(state.shared, env), env)
    return replace(state, private=sums, result=algorithm.result_of(sums))


def forget(
    algorithm: HoldsSums, state: ServerState, client: ClientId, update: Update, env: Env
) -> ServerState:
    """The finished state as if `client` had never taken part.

    Args:
        algorithm: the method that made the state.
        state: after the last round.
        client: who leaves.
        update: what it had sent, which it can make again from its data.
        env: the run's place, for the feature map's tag.

    Raises:
        ProtocolError: the client is not in the sums, or the update is not what it had sent; the
            state is left as it was.
    """
    _check_exact(algorithm)
    rows, message = ledger_rows(state.private), select(update.tensors, STATS)
    who = env.said(client)
    if (why := why_not_taken_out(rows, client, env)) is not None:
        raise ProtocolError(why)
    check_tag(message, algorithm.agreed_tag(state.shared, env), who)
    _check_same_message(rows[client], update, message, who)
    del rows[client]
    total = select(state.private, SUM)
    left = {name: total[name] - message[name].to(total[name].dtype) for name in total}
    sums = {**prefixed(SUM, left), **prefixed(LEDGER, ledger(rows))}
    # of the sums as they were: a message that is made again for other features rounds otherwise
    _check_consistent(algorithm, sums, algorithm.rounding(state.private), who)
    return replace(state, private=sums, result=algorithm.result_of(sums))


def why_not_taken_out(rows: Collection[ClientId], client: ClientId, env: Env) -> str | None:
    """Why a client cannot leave sums that hold these, or None when it can."""
    who = env.said(client)
    if client not in rows:
        known = clients_listed(rows, env.names) or "nobody"
        return f"{who} is not in the sums (in them: {known}); only what was added can be removed."
    if len(rows) == 1:
        return f"{who} is the only one in the sums; delete the run instead of forgetting it."
    return None


def model_difference(found: ServerState, wanted: ServerState) -> float:
    """Largest difference between two states' results, relative to each tensor's largest value."""
    worst = 0.0
    for name, tensor in wanted.result.items():
        if tensor.is_floating_point() and tensor.numel():
            gap = float((found.result[name] - tensor).abs().max())
            worst = max(worst, gap / max(float(tensor.abs().max()), 1e-300))
    return worst


def _check_exact(algorithm: HoldsSums) -> None:
    why = algorithm.why_not_forget()
    if why is not None:
        raise ConfigError(
            f"{type(algorithm).__name__} cannot change its members exactly: {why}; train again."
        )


def _check_same_message(row: list[float], update: Update, message: Tensors, who: str) -> None:
    count, known = row[0], torch.tensor(row[1:], dtype=torch.float64)
    found = fingerprint(message)
    scale = known.abs().max().clamp(min=1.0)
    if count != update.weight or float((found - known).abs().max() / scale) > SAME_MESSAGE:
        raise ProtocolError(
            f"{who} had added {count:g} samples with other sums than the "
            f"{update.weight:g} samples to be removed; remove exactly what was added, with the "
            "same data and features."
        )


def _check_consistent(algorithm: HoldsSums, sums: Tensors, rounding: float, who: str) -> None:
    stats = algorithm.stats_of(sums)
    values = torch.linalg.eigvalsh(stats.gram_matrix())
    if float(values[0]) < LEAST_EIGENVALUE * max(float(values.mean()), 1e-300) - rounding:
        raise ProtocolError(
            f"without {who} the sums have eigenvalue {float(values[0]):g}, which no "
            "samples have; what is removed had not been added like this."
        )
