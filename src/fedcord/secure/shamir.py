"""A secret in shares: any `threshold` of them give it back, fewer tell nothing at all.

The secret is the value at 0 of a random polynomial of degree threshold − 1 over the integers modulo
a prime; a share is its value at the holder's place 1, 2, ….

Reference: Shamir, "How to Share a Secret", Communications of the ACM 1979.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from fedcord.core.errors import ProtocolError

PRIME = 2**256 + 297
"""The least prime above every secret of 32 bytes."""
SECRET_BYTES, SHARE_BYTES = 32, 33


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares of the holders at places 1 … count."""
    assert len(secret) == SECRET_BYTES
    assert 1 <= threshold <= count
    others = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    polynomial = [int.from_bytes(secret, "big"), *others]
    return [_value_at(polynomial, place) for place in range(1, count + 1)]


def _value_at(polynomial: Sequence[int], place: int) -> bytes:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * place + coefficient) % PRIME
    return value.to_bytes(SHARE_BYTES, "big")


class Joiner:
    """Secrets from the shares of the holders at certain places, which are the same for all."""

    def __init__(self, places: Sequence[int]) -> None:
        """Lagrange's weights of each place for the value at 0."""
        self._weights = {}
        for place in places:
            above, below = 1, 1
            for other in places:
                if other != place:
                    above = above * other % PRIME
                    below = below * (other - place) % PRIME
            self._weights[place] = above * pow(below, -1, PRIME) % PRIME

    def secret(self, shares: Mapping[int, bytes]) -> bytes:
        """The secret whose shares these are, one for every place."""
        total = 0
        for place, weight in self._weights.items():
            share = shares[place]
            if len(share) != SHARE_BYTES:
                raise ProtocolError(f"a share has {len(share)} bytes, expected {SHARE_BYTES}.")
            total += weight * int.from_bytes(share, "big")
        found = total % PRIME
        if found >= 2 ** (8 * SECRET_BYTES):
            raise ProtocolError("shares do not belong together: they give no secret.")
        return found.to_bytes(SECRET_BYTES, "big")
