"""Masked sums: the server learns the sum of fixed-point messages and nothing about any single one.

Every pair of clients agrees on a secret. Of the pair, one adds and the other subtracts the same
stream of random 64-bit integers, modulo 2⁶⁴; in the sum all masks vanish, exactly. When a client
drops out after others have masked their messages, the survivors reveal their secrets with it and
the server takes the orphaned masks out.

Reference: Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017, of which this is the masking. Key agreement, secret sharing and authentication belong to
the transport and are not here: in a simulation all secrets come from one seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedcord.core.contract import ClientId
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors

LEAST_CLIENTS = 2


def pair_secret(seed: int, one: ClientId, other: ClientId) -> bytes:
    """The secret two clients share; a stand-in for their key agreement."""
    low, high = sorted((one, other))
    return hashlib.sha256(f"{seed}/pair/{low}/{high}".encode()).digest()


def mask(
    message: Tensors, client: ClientId, cohort: Sequence[ClientId], seed: int
) -> dict[str, Tensor]:
    """A message of int64 tensors with the client's masks towards its whole cohort on it."""
    _check(message, cohort, client)
    out = {name: tensor.clone() for name, tensor in message.items()}
    for other in cohort:
        if other != client:
            _apply(out, pair_secret(seed, client, other), sign=1 if client < other else -1)
    return out


def unmasked_sum(
    masked: Iterable[tuple[ClientId, Tensors]], cohort: Sequence[ClientId], seed: int
) -> dict[str, Tensor]:
    """The plain sum over the clients that answered, modulo 2⁶⁴.

    Args:
        masked: what arrived, each masked for the whole `cohort`.
        cohort: everybody who was asked.
        seed: the secrets that survivors reveal about those who dropped out.
    """
    total: dict[str, Tensor] = {}
    arrived = []
    for client, message in masked:
        arrived.append(client)
        for name, tensor in message.items():
            total[name] = total[name] + tensor if name in total else tensor.clone()
    if len(arrived) < LEAST_CLIENTS:
        raise ProtocolError(
            f"{len(arrived)} of {len(cohort)} clients answered; with fewer than {LEAST_CLIENTS} "
            "the sum is a single client's message. Ask again."
        )
    for gone in sorted(set(cohort) - set(arrived)):
        for client in arrived:  # take out the mask the survivor had put on for it
            _apply(total, pair_secret(seed, client, gone), sign=-1 if client < gone else 1)
    return total


def statement() -> str:
    """What may be claimed, in words for the user."""
    return (
        "Sums are masked: the server reads the exact sum over all clients and no single message, "
        "if pairwise secrets are known to the two clients only. All clients but one can still "
        "compute the last one's sums from the total, and so can the server together with them. "
        "Secrets here come from the run's seed: a simulation of the protocol, not protection."
    )


def _apply(total: dict[str, Tensor], secret: bytes, sign: int) -> None:
    seed = int.from_bytes(secret[:16], "little")
    generator = np.random.Generator(np.random.Philox(key=seed))
    for name in sorted(total):
        size = total[name].numel()
        stream = generator.integers(-(2**63), 2**63, size=size, dtype=np.int64, endpoint=False)
        # int64 addition wraps around, which is arithmetic modulo 2^64
        total[name] = total[name] + sign * torch.from_numpy(stream).view(total[name].shape)


def _check(message: Tensors, cohort: Sequence[ClientId], client: ClientId) -> None:
    if client not in cohort:
        raise ProtocolError(f"client {client} is not in its own cohort {list(cohort)}.")
    for name, tensor in message.items():
        if tensor.dtype != torch.int64:
            raise ProtocolError(
                f"{name} is {tensor.dtype}; only int64 can be masked exactly: use wire=fixed64."
            )
