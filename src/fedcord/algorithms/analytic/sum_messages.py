"""Sums on their way: how a client sends its own, and how the server adds up everybody's."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedcord.algorithms.analytic.ledger import (
    LEDGER,
    NO_SAMPLES,
    fingerprint,
    ledger,
    ledger_rows,
)
from fedcord.algorithms.analytic.stats import SufficientStats
from fedcord.algorithms.analytic.wire import decode_stats, encode_stats, gram_rounding
from fedcord.core.contract import ClientId, Env, Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors, prefixed, select
from fedcord.ops.fixed_point import check_sum

STATS, SUM = "stats", "sum"


def stats_update(stats: SufficientStats, form: str) -> Update:
    """The update that sends a client's sums."""
    return Update(prefixed(STATS, encode_stats(stats, form)), weight=stats.count)


def add_messages(
    before: Tensors, updates: Iterable[tuple[ClientId, Update]], tag: int, env: Env
) -> dict[str, Tensor]:
    """Sums and ledger with further messages in them; nothing is held but the sums.

    Messages are added as they travelled, so that integers stay exact. A second message of the same
    client is more of its samples.

    Args:
        before: what this function returned earlier, or nothing.
        updates: the messages.
        tag: the features everybody must have used.
        env: the server's place, which knows what clients are called.

    Returns:
        `sum.*` like the messages, real numbers in float64; `ledger.client` [K] ascending,
        `ledger.count` [K] and `ledger.fingerprint` [K, 4] of their messages.
    """
    total = {name: tensor.clone() for name, tensor in select(before, SUM).items()}
    rows = ledger_rows(before)
    for client, update in updates:
        message = select(update.tensors, STATS)
        check_tag(message, tag, env.said(client))
        # plain numbers: a small tensor per client would scatter over the memory messages leave
        rows[client] = [
            a + b
            for a, b in zip(
                rows.get(client, NO_SAMPLES),
                (update.weight, *fingerprint(message).tolist()),
                strict=True,
            )
        ]
        add_message(total, message)
    return {**prefixed(SUM, total), **prefixed(LEDGER, ledger(rows))}


def add_message(total: dict[str, Tensor], message: Tensors) -> None:
    """Add a message, in place, as it travelled: real numbers in float64, whole ones exactly."""
    for name, tensor in message.items():
        is_real = tensor.is_floating_point()
        wide = tensor.to(torch.float64) if is_real else tensor
        if name not in total:
            total[name] = wide.clone()
            continue
        if not is_real:
            check_sum(total[name], wide)
        total[name].add_(wide)


def check_tag(message: Tensors, tag: int, who: str) -> None:
    """Refuse sums of other features, saying whose they are."""
    count = int(message["class_count"].sum())
    if int(message["tag_sum"]) != tag * count:
        raise ProtocolError(
            f"{who} used other features than agreed (tag sum {int(message['tag_sum'])}, "
            f"expected {tag} x {count} samples); give it the same encoder, preprocessing, "
            "random features and seed."
        )


def summed_stats(sums: Tensors, form: str) -> SufficientStats:
    """Summed messages as statistics in float64."""
    return decode_stats(select(sums, SUM), form)


def summed_rounding(sums: Tensors, form: str) -> float:
    """How far summed messages may be from the samples' own Gram matrix, as a spectral norm."""
    return gram_rounding(summed_stats(sums, form), form, len(sums[f"{LEDGER}.client"]))
