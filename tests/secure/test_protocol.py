"""The protocol by itself: exact sums, every combination of drop-outs, and what sites refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.secure import availability
from fedcord.secure.masks import PublicKeys
from fedcord.secure.primitives import Vector, common_key, keystream, new_secret, public_of
from fedcord.secure.site import SEALED_BYTES, Site
from fedcord.secure.threshold import check_threshold, threshold_of
from tests.secure.sessions import Session, numbers


def subsets(clients: range) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(clients, r) for r in range(len(clients) + 1))


@pytest.mark.parametrize(("count", "threshold"), [(2, 2), (3, 2), (4, 3), (5, 3), (5, 5)])
def test_every_drop_out_that_leaves_enough_is_recovered_and_no_other(
    count: int, threshold: int
) -> None:
    for gone in subsets(range(count)):
        session = Session(range(count), threshold).share().mask(without=gone)
        left = count - len(gone)
        if left >= threshold:
            assert np.array_equal(session.tally.opened(session.reveal()), session.plain_sum())
            continue
        if left:
            with pytest.raises(ProtocolError, match=rf"fewer than the threshold of {threshold}"):
                session.reveal()
        with pytest.raises(ProtocolError, match="the sum cannot be read"):
            session.tally.opened({})


def test_sites_may_leave_in_every_phase_as_long_as_enough_stay() -> None:
    for lost in combinations(range(6), 3):
        before, between, after = lost
        session = Session(range(6), 4).share(without=[before]).mask(without=[between])
        revealed = session.reveal(without=[after])
        if len(revealed) >= 4:
            assert np.array_equal(session.tally.opened(revealed), session.plain_sum())
        else:
            with pytest.raises(ProtocolError, match="3 sites have given their shares, fewer than"):
                session.tally.opened(revealed)
    session = Session(range(6), 3 + 1).share(without=[0]).mask(without=[1])
    assert np.array_equal(session.tally.opened(session.reveal()), session.plain_sum())


def test_numbers_wrap_around_so_negative_ones_add_up_too() -> None:
    session = Session([3, 7], 2).share()
    values = {3: np.array([-5, 2**62, 0]), 7: np.array([3, 2**62, -1])}
    for k, value in values.items():
        _, message = session.sites[k].mask(value.astype(np.uint64), [3, 7])
        session.sites[k] = session.sites[k].mask(value.astype(np.uint64), [3, 7])[0]
        session.tally.add(k, message)
    total = session.tally.opened(session.reveal()).astype(np.int64)
    assert total.tolist() == [-2, -(2**63), -1]


# --- what a message shows -------------------------------------------------------------------------


def chance_of_bytes(message: Vector) -> float:
    """How likely bytes at least as uneven are if all are equally likely (chi-square)."""
    return float(stats.chisquare(np.bincount(message.view(np.uint8), minlength=256)).pvalue)


def chance_of_bits(message: Vector) -> float:
    """How likely so uneven a number of ones is if every bit is a fair coin."""
    bits = np.unpackbits(message.view(np.uint8))
    return float(stats.binomtest(int(bits.sum()), len(bits)).pvalue)


def test_a_single_message_is_random_to_whoever_lacks_a_key() -> None:
    session = Session(range(3), 2).share()
    plain = numbers(1, length=20_000)
    _, message = session.sites[1].mask(plain, [0, 1, 2])
    assert min(chance_of_bytes(plain), chance_of_bits(plain)) < 1e-9  # the test can fail
    assert min(chance_of_bytes(message), chance_of_bits(message)) > 1e-7
    # nor without its own mask, nor without those towards others
    own = keystream(session.sites[1].seed, len(message))
    assert chance_of_bytes(message - own) > 1e-7
    key = session.sites[1].mask_secret
    pairs = [
        keystream(
            common_key(
                key,
                PublicKeys.from_bytes(session.tally.roster[k]).masks,
                f"fedcord mask/{session.tally.session}",
            ),
            len(message),
        )
        for k in (0, 2)
    ]
    assert chance_of_bytes(message + pairs[0] - pairs[1]) > 1e-7
    assert np.array_equal((message - own + pairs[0] - pairs[1])[:-1], plain)


def test_nothing_repeats_between_sessions_because_nothing_comes_from_a_seed() -> None:
    one, other = (Session(range(3), 2).share().mask() for _ in range(2))
    assert one.tally.roster != other.tally.roster
    assert not np.array_equal(one.messages[0], other.messages[0])


# --- what sites refuse ----------------------------------------------------------------------------


def test_never_both_shares_of_one_site() -> None:
    session = Session(range(5), 3).share().mask()
    site, sealed = session.sites[0], session.tally.shares_for(0)
    after, first = site.unmask([0, 1, 2, 3], sealed)  # 4 dropped out, the server says
    assert after.unmask([0, 1, 2, 3], sealed)[1] == first
    with pytest.raises(ProtocolError, match="client 0 has already unmasked the sum of other"):
        after.unmask([0, 1, 2, 3, 4], sealed)
    assert all(len(share) == 33 for share in first.values())


@pytest.mark.parametrize(
    ("survivors", "why"),
    [
        ([0, 1], "was named 2 sites, fewer than the threshold of 3"),
        ([1, 2, 3], "is not among the sites named to it"),
        ([0, 1, 2, 9], "of which not every one takes part"),
        ([0, 1, 1, 2], "or one twice"),
        ([2, 1, 0], "or one twice"),
    ],
)
def test_lists_of_survivors_that_a_site_refuses(survivors: list[int], why: str) -> None:
    session = Session(range(5), 3).share().mask()
    with pytest.raises(ProtocolError, match=f"client 0 .*{why}.*it reveals nothing"):
        session.sites[0].unmask(survivors, session.tally.shares_for(0))


def test_masks_are_used_for_one_message_only() -> None:
    session = Session(range(4), 3).share().mask()
    site = session.sites[2]
    assert np.array_equal(site.mask(numbers(2), [0, 1, 2, 3])[1], session.messages[2])
    with pytest.raises(ProtocolError, match="has already sent another message under these masks"):
        site.mask(numbers(2) + np.uint64(1), [0, 1, 2, 3])
    with pytest.raises(ProtocolError, match="has already masked its message towards other sites"):
        site.mask(numbers(2), [0, 1, 2])
    with pytest.raises(ProtocolError, match="was named 2 sites, fewer than the threshold of 3"):
        Session(range(4), 3).share().sites[2].mask(numbers(2), [1, 2])


def test_once_everything_is_answered_a_site_can_no_longer_unmask_its_own_message() -> None:
    session = Session(range(3), 2).share().mask()
    before = session.sites[0]
    session.reveal()
    kept = session.sites[0].to_bytes()
    for secret in (before.seed, before.mask_secret):
        assert secret.hex().encode() in before.to_bytes()
        assert secret.hex().encode() not in kept
        assert repr(secret) not in repr(before)
    with pytest.raises(ProtocolError, match="has unmasked this sum and has no masks left"):
        session.sites[0].mask(numbers(0), [0, 1, 2])
    with pytest.raises(ProtocolError, match="which is over"):
        _ = session.sites[0].public_keys


def test_steps_come_in_order() -> None:
    fresh = Session(range(3), 2)
    with pytest.raises(ProtocolError, match="client 0 has not shared its secrets yet"):
        fresh.sites[0].mask(numbers(0), [0, 1, 2])
    with pytest.raises(ProtocolError, match="has sent no message, so there is nothing to unmask"):
        fresh.share().sites[0].unmask([0, 1, 2], fresh.tally.shares_for(0))


def test_secrets_are_shared_once_among_one_roster() -> None:
    session = Session(range(4), 3).share()
    site, roster = session.sites[1], session.tally.roster
    assert site.share(roster, 3)[1] == session.tally.sealed[1]
    for other, threshold in (({k: roster[k] for k in (0, 1, 2)}, 3), (roster, 4)):
        with pytest.raises(ProtocolError, match="has already shared its secrets among other sites"):
            site.share(other, threshold)
    assert all(len(sealed) == SEALED_BYTES for sealed in session.tally.sealed[1].values())


def test_rosters_that_a_site_refuses() -> None:
    session = Session(range(4), 3)
    site, roster = session.sites[1], session.tally.roster
    with pytest.raises(ProtocolError, match="is not in the roster with its own keys"):
        site.share({**roster, 1: roster[0]}, 3)
    with pytest.raises(ProtocolError, match="the same keys for two sites"):
        site.share({**roster, 2: roster[0]}, 3)
    with pytest.raises(ProtocolError, match="public keys of a wrong length"):
        site.share({**roster, 2: b"short"}, 3)
    with pytest.raises(ProtocolError, match="a site's public key cannot be used"):
        site.share({**roster, 2: bytes(64)}, 3)
    for threshold in (1, 2, 5):
        with pytest.raises(ProtocolError, match=f"a threshold of {threshold} among 4 sites"):
            site.share(roster, threshold)


def test_shares_that_were_changed_swapped_or_held_back_are_refused() -> None:
    session = Session(range(3), 2).share().mask()
    sealed = session.tally.shares_for(0)
    flipped = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
    for bad in ({**sealed, 1: flipped}, {**sealed, 1: sealed[2]}, {**sealed, 1: b""}):
        with pytest.raises(ProtocolError, match="client 0 cannot open the shares of client 1"):
            session.sites[0].unmask([0, 1, 2], bad)
    with pytest.raises(ProtocolError, match="was given no shares of client 2"):
        session.sites[0].unmask([0, 1, 2], {1: sealed[1]})


def test_sites_that_were_told_different_rosters_cannot_read_each_other() -> None:
    session = Session(range(4), 3)
    told = dict(session.tally.roster)
    odd = {**told, 3: Site.begin(3, session.tally.session).public_keys}
    session.sites[0], session.tally.sealed[0] = session.sites[0].share(odd, 3)
    for k in (1, 2):
        session.sites[k], session.tally.sealed[k] = session.sites[k].share(told, 3)
    session.mask()
    with pytest.raises(ProtocolError, match="client 0 cannot open the shares of client 1"):
        session.reveal()


def test_a_sum_that_does_not_come_out_is_refused() -> None:
    session = Session(range(4), 3).share().mask(without=[3])
    revealed = session.reveal()
    session.tally.opened(revealed)
    wrong = {k: dict(shares) for k, shares in revealed.items()}
    wrong[0][1] = revealed[0][2]
    with pytest.raises(ProtocolError, match="the sum does not count the 3 messages in it"):
        session.tally.opened(wrong)
    wrong = {k: dict(shares) for k, shares in revealed.items()}
    wrong[0][3] = revealed[0][2]
    with pytest.raises(ProtocolError, match="client 3, who dropped out, do not give its key back"):
        session.tally.opened(wrong)


# --- parts ----------------------------------------------------------------------------------------


def test_two_sites_agree_on_a_key_that_is_bound_to_its_purpose() -> None:
    one, other = new_secret(), new_secret()
    key = common_key(one, public_of(other), "a")
    assert key == common_key(other, public_of(one), "a") != common_key(one, public_of(other), "b")


def test_the_keystream_is_that_of_chacha20() -> None:
    """RFC 8439, appendix A.1, test vector 1: key and nonce all zero, block 0."""
    known = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert keystream(bytes(32), 4).tobytes() == known


@pytest.mark.parametrize(
    ("share", "count", "threshold"),
    [
        (0.6, 5, 3),
        (0.6, 10, 6),
        (2 / 3, 3, 2),
        (2 / 3, 9, 6),
        (1.0, 7, 7),
        (0.51, 2, 2),
        (0.5, 4, 3),
    ],
)
def test_the_threshold_is_a_share_of_those_asked_and_more_than_half(
    share: float, count: int, threshold: int
) -> None:
    assert threshold_of(share, count) == threshold
    check_threshold(threshold, count)


def test_a_site_survives_being_written_down_in_every_state() -> None:
    session = Session(range(3), 2)
    assert Site.from_bytes(session.sites[0].to_bytes()) == session.sites[0]
    session.share().mask()
    session.reveal()
    assert session.sites[0].survivors == (0, 1, 2)
    assert Site.from_bytes(session.sites[0].to_bytes()) == session.sites[0]
    for damaged in (b"", b"[]", b'{"client": 1}', session.sites[0].to_bytes()[:-9]):
        with pytest.raises(ProtocolError, match="a kept session cannot be read"):
            Site.from_bytes(damaged)


def test_a_missing_library_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    availability.check_available()
    monkeypatch.setattr(availability, "LIBRARY", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install 'fedcord\[secure\]'"):
        availability.check_available()
