"""Who is in the sums, and how to recognise what each has sent: all that leaving needs to be told.

A row per client: how many samples it has added, and four numbers of its message that anybody can
compute again from the message itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from fedcord.core.tensors import Tensors, select
from fedcord.ops.symmetric import diagonal_places

LEDGER = "ledger"
NO_SAMPLES = [0.0] * 5
"""A row before anything is heard of a client."""


def ledger_rows(sums: Tensors) -> dict[int, list[float]]:
    """Client to [samples, then the fingerprint]; the inverse of `ledger`."""
    known = select(sums, LEDGER)
    if not known:
        return {}
    numbers = torch.cat([known["count"][:, None], known["fingerprint"]], dim=1)
    return dict(zip(known["client"].tolist(), numbers.tolist(), strict=True))


def ledger(rows: Mapping[int, list[float]]) -> dict[str, Tensor]:
    """Who is in the sums, as tensors in ascending order of clients."""
    clients = sorted(rows)
    numbers = torch.tensor([rows[client] for client in clients], dtype=torch.float64)
    return {
        "client": torch.tensor(clients, dtype=torch.int64),
        "count": numbers[:, 0].contiguous(),
        "fingerprint": numbers[:, 1:].contiguous(),
    }


def fingerprint(message: Tensors) -> Tensor:
    """[4] float64: plain and weighted sums of `moment`, and of `gram` and its diagonal.

    Cheap, tolerant of rounding, and linear: the parts of a message that arrives in parts have
    fingerprints that add up. It finds mistakes, not forgery.
    """
    gram, moment = message["gram"], message["moment"].reshape(-1).to(torch.float64)
    diagonal = gram[diagonal_places(message["moment"].shape[0])].to(torch.float64)
    whole = gram.sum(dtype=torch.float64)
    waves = [(x * _waves(len(x))).sum() for x in (diagonal, moment)]
    return torch.stack([whole, moment.sum(), *waves])


@lru_cache(maxsize=4)
def _waves(length: int) -> Tensor:
    return torch.sin(torch.arange(1, length + 1, dtype=torch.float64))
