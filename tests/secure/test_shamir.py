"""Shares against a slow re-derivation in exact fractions, and what fewer of them tell."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations

import pytest
import sympy

from fedcord.core.errors import ProtocolError
from fedcord.secure import shamir
from fedcord.secure.shamir import PRIME, Joiner, split


def interpolated_at_zero(points: Mapping[int, int]) -> int:
    """Lagrange over the rationals: the value at 0 as a fraction, then modulo the prime."""
    total = Fraction(0)
    for x, y in points.items():
        term = Fraction(y)
        for other in points:
            if other != x:
                term *= Fraction(-other, x - other)
        total += term
    return total.numerator * pow(total.denominator, -1, PRIME) % PRIME


def test_the_modulus_is_a_prime_above_every_secret() -> None:
    assert sympy.isprime(PRIME)
    assert int.from_bytes(b"\xff" * 32, "big") < PRIME


@pytest.mark.parametrize("kind", ["zeros", "ones", "random"])
def test_any_group_of_the_threshold_gives_the_secret_back(kind: str) -> None:
    drawn = secrets.token_bytes(32)
    secret = {"zeros": bytes(32), "ones": b"\xff" * 32, "random": drawn}[kind]
    shares = dict(enumerate(split(secret, threshold=3, count=6), start=1))
    for places in combinations(shares, 3):
        found = Joiner(places).secret(shares)
        slow = interpolated_at_zero({k: int.from_bytes(shares[k], "big") for k in places})
        assert found == secret == slow.to_bytes(32, "big")


def test_fewer_shares_fit_every_secret_equally_well() -> None:
    """For two of three shares and any secret there is one third share that completes them."""
    shares = split(secrets.token_bytes(32), threshold=3, count=5)
    held = {1: int.from_bytes(shares[0], "big"), 2: int.from_bytes(shares[1], "big")}
    for guess in (0, 1, secrets.randbelow(2**256)):
        points = {0: guess, **held}
        third = sum(
            y
            * _product(5 - o for o in points if o != x)
            * pow(_product(x - o for o in points if o != x), -1, PRIME)
            for x, y in points.items()
        )
        completed = {k: v.to_bytes(33, "big") for k, v in {**held, 5: third % PRIME}.items()}
        assert Joiner([1, 2, 5]).secret(completed) == guess.to_bytes(32, "big")


def _product(values: Iterable[int]) -> int:
    total = 1
    for value in values:
        total = total * value % PRIME
    return total


def test_shares_of_one_secret_differ_from_time_to_time_and_look_random() -> None:
    secret = bytes(32)
    first = [split(secret, 2, 2)[0] for _ in range(256)]
    assert len(set(first)) == 256
    counts = Counter(byte for share in first for byte in share[1:])  # the top byte is nearly 0
    expected = 256 * 32 / 256
    chi_square = sum((counts[byte] - expected) ** 2 / expected for byte in range(256))
    assert chi_square < 400  # 255 degrees of freedom: one in ten million


def test_shares_that_do_not_belong_together_are_refused() -> None:
    shares = dict(enumerate(split(secrets.token_bytes(32), 2, 3), start=1))
    with pytest.raises(ProtocolError, match="a share has 5 bytes, expected 33"):
        Joiner([1, 2]).secret({**shares, 1: b"short"})
    weight = Joiner([1])
    with pytest.raises(ProtocolError, match="they give no secret"):
        weight.secret({1: (2**256 + 5).to_bytes(shamir.SHARE_BYTES, "big")})
