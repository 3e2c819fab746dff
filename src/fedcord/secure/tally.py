"""The server's half of the protocol: it passes on what it cannot read, adds, and opens the sum.

Of every site it is given shares of one secret: the seed of its own mask if its message arrived, or
else the key behind the masks that the others have put on towards it. Each takes some masks off the
sum; never both are known of one site, so no single message can be read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcord.core.errors import ProtocolError
from fedcord.secure.masks import PublicKeys, add_pairs, add_stream
from fedcord.secure.primitives import Vector, public_of
from fedcord.secure.shamir import Joiner


class Tally:
    """The sum of a session, as it grows.

    Attributes:
        session: as the sites know it.
        threshold: shares that give a secret back.
        roster: public keys of everybody who advertised.
        sealed: by sender and receiver, the shares that are passed on unread.
        survivors: whose messages have arrived.
    """

    def __init__(self, session: str, threshold: int) -> None:
        self.session = session
        self.threshold = threshold
        self.roster: dict[int, bytes] = {}
        self.sealed: dict[int, Mapping[int, bytes]] = {}
        self.survivors: list[int] = []
        self._total: Vector | None = None

    @property
    def committed(self) -> list[int]:
        """Everybody who has shared its secrets, ascending."""
        return sorted(self.sealed)

    def add(self, client: int, message: Vector) -> None:
        """One site's message; only the sum is kept."""
        if self._total is None:
            self._total = np.zeros_like(message)
        self._total += message
        self.survivors = sorted([*self.survivors, client])

    def shares_for(self, client: int) -> dict[int, bytes]:
        """What the others who take part have sealed for a site, by sender."""
        return {k: sealed[client] for k, sealed in self.sealed.items() if k != client}

    def opened(self, revealed: Mapping[int, Mapping[int, bytes]]) -> Vector:
        """The sum [N] of the numbers of all survivors, modulo 2⁶⁴.

        Args:
            revealed: by site, what it has answered to `unmask`.

        Raises:
            ProtocolError: there are too few answers, or they do not fit; nothing can be read then.
        """
        if len(revealed) < self.threshold or self._total is None:
            raise ProtocolError(
                f"{len(revealed)} sites have given their shares, fewer than the threshold of "
                f"{self.threshold}; the sum cannot be read."
            )
        places = {client: place for place, client in enumerate(sorted(self.roster), start=1)}
        used = sorted(revealed)[: self.threshold]
        joiner = Joiner([places[client] for client in used])
        total = self._total.copy()
        keys = {k: PublicKeys.from_bytes(self.roster[k]) for k in self.committed}
        for client in self.committed:
            secret = joiner.secret({places[k]: revealed[k][client] for k in used})
            if client in self.survivors:
                add_stream(total, secret, sign=-1)
                continue
            if public_of(secret) != keys[client].masks:
                raise ProtocolError(
                    f"the shares of client {client}, who dropped out, do not give its key back; "
                    "the sum cannot be read."
                )
            # what the survivors have put on towards it is what it would have put on, negated
            others = ((k, keys[k]) for k in self.survivors)
            add_pairs(total, client, secret, others, self.session)
        if int(total[-1]) != len(self.survivors):
            raise ProtocolError(
                f"after all masks were taken off, the sum does not count the {len(self.survivors)} "
                "messages in it: a message or a share was changed; the sum cannot be read."
            )
        return total[:-1]
