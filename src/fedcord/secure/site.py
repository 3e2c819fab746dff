"""A client's half of the protocol, and all that it must never do.

    begin   → public keys                         two key pairs and a seed, drawn here
    share   → sealed shares for every other       of the seed, and of the key behind its masks
    mask    → the message with all masks on it    towards everybody who has shared
    unmask  → one share of every site's secret    the seed's of those whose message arrived,
                                                  the key's of those who dropped out

A site is a value: every step gives the answer and the site after it, so that it can be kept in a
file between two messages and asked again after a lost one. It answers every step once. Asked again
for the same, it answers the same; asked for something else, it refuses, because two answers to one
step could be put together: both shares of a site, or two messages under one mask.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from fedcord.core.errors import ProtocolError, shown
from fedcord.core.names import client_said
from fedcord.secure import shamir
from fedcord.secure.masks import PUBLIC_BYTES, PublicKeys, add_pairs, add_stream
from fedcord.secure.primitives import Vector, common_key, new_secret, seal, unseal
from fedcord.secure.threshold import check_threshold

SEALED_BYTES = 12 + 2 * shamir.SHARE_BYTES + 16
"""Of one site's shares for another: nonce, the two shares, authentication."""


@dataclass(frozen=True)
class Site:
    """A site in one session: its secrets, and what it has answered so far.

    Attributes:
        client: who it is.
        session: names run, round and attempt; every key is bound to it.
        mask_secret: private key behind its masks towards others; shared out, and deleted when
            everything is answered, as is the seed.
        seal_secret: private key that shares are sealed to it with; never leaves.
        seed: of its own mask; shared out.
        roster: public keys of everybody who advertised; empty before `share`.
        threshold: shares that give a secret back.
        sealed: what it has sealed, by receiver.
        own_share: its own share of its own two secrets.
        committed: everybody its message is masked towards; empty before `mask`.
        message: SHA-256 of the masked message.
        survivors: whose seeds it has given shares of; empty before `unmask`.
        name: what people call it, for messages.
    """

    client: int
    session: str
    mask_secret: bytes = field(repr=False)  # an error message may show a site
    seal_secret: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    roster: Mapping[int, bytes] = field(default_factory=dict)
    threshold: int = 0
    sealed: Mapping[int, bytes] = field(default_factory=dict)
    own_share: bytes = field(default=b"", repr=False)
    committed: tuple[int, ...] = ()
    message: bytes = b""
    survivors: tuple[int, ...] = ()
    name: str = ""

    @staticmethod
    def begin(client: int, session: str, name: str = "") -> Site:
        """A site with fresh secrets of the operating system's."""
        return Site(client, session, new_secret(), new_secret(), new_secret(), name=name)

    @property
    def public_keys(self) -> bytes:
        """What it advertises."""
        if self.survivors:
            raise self._refusal("has unmasked the sum of this session, which is over")
        return PublicKeys.of(self.mask_secret, self.seal_secret).to_bytes()

    def share(
        self, roster: Mapping[int, bytes], threshold: int
    ) -> tuple[Site, Mapping[int, bytes]]:
        """Its two secrets in shares, sealed for each of the others.

        Args:
            roster: the public keys of everybody who advertised.
            threshold: shares that shall give a secret back.
        """
        if self.roster:
            if dict(self.roster) != dict(roster) or self.threshold != threshold:
                raise self._refusal("has already shared its secrets among other sites")
            return self, self.sealed
        if roster.get(self.client) != self.public_keys:
            raise self._refusal("is not in the roster with its own keys")
        if any(len(keys) != PUBLIC_BYTES for keys in roster.values()):
            raise self._refusal("was given public keys of a wrong length")
        if len(set(roster.values())) < len(roster):
            raise self._refusal("was given the same keys for two sites")
        check_threshold(threshold, len(roster))
        places = sorted(roster)
        of_key = shamir.split(self.mask_secret, threshold, len(places))
        of_seed = shamir.split(self.seed, threshold, len(places))
        both = {k: a + b for k, a, b in zip(places, of_key, of_seed, strict=True)}
        after = replace(self, roster=dict(roster), threshold=threshold, own_share=both[self.client])
        sealed = {
            other: seal(after._seal_key(self.client, other), both[other])
            for other in places
            if other != self.client
        }
        return replace(after, sealed=sealed), sealed

    def mask(self, numbers: Vector, committed: Sequence[int]) -> tuple[Site, Vector]:
        """The message [N + 1]: the numbers [N] and a 1 that counts messages, all masked.

        Args:
            numbers: what is to be added up.
            committed: everybody who has shared its secrets.
        """
        self._check_group(committed, self.roster, "has shared its secrets")
        if self.survivors:
            raise self._refusal("has unmasked this sum and has no masks left")
        if self.committed and self.committed != tuple(committed):
            raise self._refusal("has already masked its message towards other sites")
        total = np.append(numbers, np.uint64(1))
        others = ((k, PublicKeys.from_bytes(self.roster[k])) for k in committed if k != self.client)
        add_stream(total, self.seed, sign=1)
        add_pairs(total, self.client, self.mask_secret, others, self.session)
        digest = hashlib.sha256(total.tobytes()).digest()
        if self.message and self.message != digest:
            raise self._refusal("has already sent another message under these masks")
        return replace(self, committed=tuple(committed), message=digest), total

    def unmask(
        self, survivors: Sequence[int], sealed: Mapping[int, bytes]
    ) -> tuple[Site, dict[int, bytes]]:
        """One share of a secret of each site it is masked towards, itself included.

        Args:
            survivors: whose messages arrived: of those the seed's, of the others the key's.
            sealed: what the others have sealed for this one.
        """
        if not self.message:
            raise self._refusal("has sent no message, so there is nothing to unmask")
        self._check_group(survivors, self.committed, "takes part")
        if self.survivors and self.survivors != tuple(survivors):
            raise self._refusal("has already unmasked the sum of other messages")
        found = {}
        for other in self.committed:
            both = self.own_share if other == self.client else self._opened(other, sealed)
            of_key, of_seed = both[: shamir.SHARE_BYTES], both[shamir.SHARE_BYTES :]
            found[other] = of_seed if other in survivors else of_key
        # whoever breaks in later shall not be able to unmask what was sent
        after = replace(self, survivors=tuple(survivors), mask_secret=b"", seed=b"")
        return after, found

    def _opened(self, sender: int, sealed: Mapping[int, bytes]) -> bytes:
        if sender not in sealed:
            raise self._refusal(f"was given no shares of client {sender}")
        try:
            return unseal(self._seal_key(sender, self.client), sealed[sender])
        except ProtocolError as error:
            raise self._refusal(f"cannot open the shares of client {sender}") from error

    def _seal_key(self, sender: int, receiver: int) -> bytes:
        """A key for one direction, of use only to sites that were told the same roster."""
        other = self.roster[receiver if sender == self.client else sender]
        told = hashlib.sha256(f"{self.threshold}".encode())
        for client in sorted(self.roster):
            told.update(f"/{client}/".encode() + self.roster[client])
        purpose = f"fedcord shares/{self.session}/{sender}/{receiver}/{told.hexdigest()}"
        return common_key(self.seal_secret, PublicKeys.from_bytes(other).seals, purpose)

    def _check_group(self, group: Sequence[int], whole: Collection[int], what: str) -> None:
        if not self.roster:
            raise self._refusal("has not shared its secrets yet")
        if list(group) != sorted(set(group)) or not set(group) <= set(whole):
            raise self._refusal(f"was named sites of which not every one {what} (or one twice)")
        if self.client not in group:
            raise self._refusal("is not among the sites named to it")
        if len(group) < self.threshold:
            raise self._refusal(
                f"was named {len(group)} sites, fewer than the threshold of {self.threshold}"
            )

    def _refusal(self, why: str) -> ProtocolError:
        who = client_said(self.client, {self.client: self.name})
        return ProtocolError(f"{who} {why}; it reveals nothing.")

    def to_bytes(self) -> bytes:
        """All of it, to be kept between two messages where nobody else can read it."""
        return json.dumps({f.name: _plain(getattr(self, f.name)) for f in fields(self)}).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Site:
        """The inverse of `to_bytes`."""
        try:
            kept = json.loads(data)
            hexed = ("mask_secret", "seal_secret", "seed", "own_share", "message")
            kept |= {name: bytes.fromhex(kept[name]) for name in hexed}
            for name in ("roster", "sealed"):
                kept[name] = {int(k): bytes.fromhex(v) for k, v in kept[name].items()}
            kept |= {name: tuple(kept[name]) for name in ("committed", "survivors")}
            return Site(**kept)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProtocolError(f"a kept session cannot be read ({shown(str(error))}).") from error


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    return {k: v.hex() for k, v in value.items()} if isinstance(value, Mapping) else value
