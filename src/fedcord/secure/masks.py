"""The masks of a message: a site's own, and one towards every other that cancels in the sum.

message of i = numbers + own(i) + Σ_{j > i} pair(i, j) − Σ_{j < i} pair(i, j)   modulo 2⁶⁴
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedcord.secure.primitives import KEY_BYTES, Vector, common_key, keystream, public_of


@dataclass(frozen=True)
class PublicKeys:
    """What a site advertises.

    Attributes:
        masks: of the key that its masks towards others come from.
        seals: of the key that shares are sealed to it with.
    """

    masks: bytes
    seals: bytes

    @staticmethod
    def of(mask_secret: bytes, seal_secret: bytes) -> PublicKeys:
        """Those that belong to private ones."""
        return PublicKeys(public_of(mask_secret), public_of(seal_secret))

    def to_bytes(self) -> bytes:
        """As they travel."""
        return self.masks + self.seals

    @staticmethod
    def from_bytes(data: bytes) -> PublicKeys:
        """The inverse of `to_bytes`."""
        return PublicKeys(data[:KEY_BYTES], data[KEY_BYTES:])


PUBLIC_BYTES = 2 * KEY_BYTES


def add_pairs(
    numbers: Vector,
    site: int,
    secret: bytes,
    others: Iterable[tuple[int, PublicKeys]],
    session: str,
) -> None:
    """Put a site's masks towards others on; in place."""
    for other, keys in others:
        key = common_key(secret, keys.masks, f"fedcord mask/{session}")
        add_stream(numbers, key, sign=1 if site < other else -1)


def add_stream(numbers: Vector, key: bytes, sign: int) -> None:
    """Add the keystream of a key, such as a site's own seed, or subtract it; in place."""
    stream = keystream(key, len(numbers))
    if sign > 0:
        numbers += stream
    else:
        numbers -= stream
