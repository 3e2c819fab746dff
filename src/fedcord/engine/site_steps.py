"""What a node does in the steps of a masked round: the site's half, between a store and tensors.

A session is one attempt of a server at one round. What a client must remember of it is kept in the
store, because every message may find a new process; a new session takes the place of the old one,
whose secrets are then gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedcord.core.contract import ClientId, Combination, Update
from fedcord.core.errors import NumericalError, ProtocolError, shown
from fedcord.core.names import client_said
from fedcord.core.tensors import Tensors, TensorSpec, check_tensors
from fedcord.engine.memory_store import MemoryStore
from fedcord.engine.requests import Parcel, Reply, Request, answered, refused
from fedcord.engine.summands import to_summands
from fedcord.secure.masks import PUBLIC_BYTES
from fedcord.secure.shamir import SHARE_BYTES
from fedcord.secure.site import SEALED_BYTES, Site
from fedcord.secure.threshold import threshold_of

COMMITTED = "secure.committed"
"""Name under which those who have shared their secrets are sent, beside what is shared."""
SESSION = "session"
MAX_NAME = 64


Names = Mapping[ClientId, str]
"""What those clients are called that have a name."""


def steps(
    store: MemoryStore, request: Request, parcel: Parcel, agreed: float | None, names: Names
) -> Iterator[Reply]:
    """Every step but `mask`; what a client refuses is its own answer.

    Args:
        store: of the node.
        request: to advertise, share or unmask.
        parcel: who is asked.
        agreed: the share of clients that must stay, as far as it was agreed on.
        names: for messages.
    """
    session = _session_of(request, parcel)
    for client in parcel.clients:
        try:
            if request.verb == "advertise":
                made = _advertised(store, client, session, names.get(client, ""))
            elif request.verb == "share":
                site = _known(store, client, session, names)
                made = _shared_out(store, site, client_said(client, names), request.shared, agreed)
            else:
                site = _known(store, client, session, names)
                made = _unmasked(store, site, request.shared, parcel.tensors)
        except ProtocolError as error:
            yield refused(request, client, str(error))
        else:
            yield answered(request, client, made, {SESSION: parcel.options[SESSION]})


@dataclass(frozen=True)
class Masking:
    """The step `mask`: what every update of a request goes through.

    Attributes:
        store: of the node.
        request: as the algorithm sees it.
        attempt: the session as the server named it.
        session: as keys are bound to it.
        needs: how updates are combined.
        committed: everybody who has shared its secrets.
        names: for messages.
    """

    store: MemoryStore
    request: Request
    attempt: str
    session: str
    needs: Combination
    committed: list[ClientId]
    names: Names

    @staticmethod
    def of(
        store: MemoryStore, request: Request, parcel: Parcel, needs: Combination, names: Names
    ) -> tuple[Masking, Request]:
        """With the request without what only the protocol needs."""
        session, shared = _session_of(request, parcel), dict(request.shared)
        named = _clients_in({COMMITTED: shared.pop(COMMITTED, torch.zeros(0))}, COMMITTED)
        plain = replace(request, shared=shared)
        attempt = parcel.options[SESSION]
        return Masking(store, plain, attempt, session, needs, named, names), plain

    def reply(
        self,
        client: ClientId,
        update: Update,
        expected: Mapping[str, TensorSpec],
        values: Mapping[str, Any],
    ) -> Reply:
        """A client's update with all masks on it, its weight included; nothing else of it."""
        try:
            site = _known(self.store, client, self.session, self.names)
            numbers = to_summands(update, expected, self.needs, clients=len(self.committed))
            site, message = site.mask(numbers, self.committed)
        except (ProtocolError, NumericalError) as error:
            return refused(self.request, client, str(error))
        self.store.keep_session(client, site.to_bytes())
        made = {"message": torch.from_numpy(message.view(np.int64))}
        return answered(self.request, client, made, {**values, SESSION: self.attempt})


def _session_of(request: Request, parcel: Parcel) -> str:
    attempt = parcel.options.get(SESSION)
    if not isinstance(attempt, str) or not 0 < len(attempt) <= MAX_NAME:
        raise ProtocolError(f"a masked round has the name {shown(attempt)}, expected a short one.")
    return f"{request.run}/{request.step}/{attempt}"


def _advertised(store: MemoryStore, client: ClientId, session: str, name: str) -> Tensors:
    """Public keys; the session begins here, and another one's secrets are gone."""
    kept = store.session(client)
    site = Site.from_bytes(kept) if kept else None
    if site is None or site.session != session:
        site = Site.begin(client, session, name)
        store.keep_session(client, site.to_bytes())
    return {"keys": to_tensor(site.public_keys)}


def _shared_out(
    store: MemoryStore, site: Site, who: str, told: Tensors, agreed: float | None
) -> Tensors:
    """Sealed shares, a row for each of the others in ascending order."""
    count = told["roster"].numel() if "roster" in told else 0
    spec = {
        "roster": TensorSpec((count,), torch.int64),
        "keys": TensorSpec((count, PUBLIC_BYTES), torch.uint8),
        "threshold": TensorSpec((), torch.int64),
    }
    check_tensors(told, spec, "the server")
    threshold = int(told["threshold"])
    if agreed is not None and threshold < threshold_of(agreed, count):
        raise ProtocolError(
            f"{who} was told a threshold of {threshold} among {count} sites, below the "
            f"{threshold_of(agreed, count)} that were agreed on; it reveals nothing."
        )
    roster = dict(zip(told["roster"].tolist(), from_rows(told["keys"]), strict=True))
    if len(roster) < count:
        raise ProtocolError(f"{who} was told a roster that names a site twice.")
    site, sealed = site.share(roster, threshold)
    store.keep_session(site.client, site.to_bytes())
    return {"sealed": to_rows([sealed[other] for other in sorted(sealed)], SEALED_BYTES)}


def _unmasked(store: MemoryStore, site: Site, told: Tensors, own: Tensors) -> Tensors:
    """Shares of everybody's secrets, a row for each that takes part in ascending order."""
    survivors = _clients_in(told, "survivors")
    count = own["senders"].numel() if "senders" in own else 0
    spec = {
        "senders": TensorSpec((count,), torch.int64),
        "sealed": TensorSpec((count, SEALED_BYTES), torch.uint8),
    }
    check_tensors(own, spec, "the server")
    sealed = dict(zip(own["senders"].tolist(), from_rows(own["sealed"]), strict=True))
    site, shares = site.unmask(survivors, sealed)
    store.keep_session(site.client, site.to_bytes())
    return {"shares": to_rows([shares[other] for other in sorted(shares)], SHARE_BYTES)}


def _known(store: MemoryStore, client: ClientId, session: str, names: Names) -> Site:
    kept = store.session(client)
    site = Site.from_bytes(kept) if kept else None
    if site is None or site.session != session:
        raise ProtocolError(
            f"{client_said(client, names)} takes part in no such masked round; it must begin with "
            "its keys."
        )
    return site


def _clients_in(told: Tensors, name: str) -> list[ClientId]:
    """Clients that the server names."""
    length = told[name].numel() if name in told else 0
    check_tensors(told, {name: TensorSpec((length,), torch.int64)}, "the server")
    clients: list[ClientId] = told[name].tolist()
    return clients


def to_tensor(data: bytes) -> Tensor:
    """Bytes as they travel."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def to_rows(parts: list[bytes], length: int) -> Tensor:
    """Equally long pieces as they travel: [n, length]."""
    if not parts:
        return torch.zeros(0, length, dtype=torch.uint8)
    return to_tensor(b"".join(parts)).view(len(parts), length)


def from_rows(tensor: Tensor) -> list[bytes]:
    """The inverse of `to_rows`."""
    return [row.tobytes() for row in tensor.contiguous().numpy()]
