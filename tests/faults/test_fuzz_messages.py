"""Bytes of any kind are a message or a ProtocolError; what passes is safe to count with."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcord.core.contract import Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import encode, spec_of
from fedcord.engine.requests import (
    LENGTH_BYTES,
    Parcel,
    Reply,
    Request,
    pack_call,
    pack_parcel,
    pack_replies,
    pack_request,
    unpack,
    unpack_call,
    unpack_parcel,
    unpack_replies,
    unpack_request,
)
from fedcord.engine.visits import MAX_WEIGHT, check_update
from tests.faults.budget import examples

TENSORS = {"model.w": torch.arange(4.0), "n": torch.tensor(3)}
ASKED = Request("update", TENSORS, round=2, num_rounds=5, seed=7, step=2, run="r")
SAID = {"weight": 12.0, "metrics": {"train_loss": 0.5}}
MESSAGES = [
    pack_request(ASKED),
    pack_parcel(Parcel((0, 3), {"first": 1})),
    pack_call(ASKED, Parcel((0, 3))),
    pack_replies([Reply(k, "update", 2, "r", TENSORS, SAID) for k in range(2)]),
    pack_replies([Reply(3, "update", 2, "r", refusal="client 3: no")]),
]
plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([2**63, 10**30, 10**400]),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["update", "personalize"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = [
    "verb", "round", "num_rounds", "seed", "step", "run", "clients", "options", "replies",
    "stacked", "error", "message",
]  # fmt: skip


def framed(header: bytes, tensors: bytes = encode(TENSORS)) -> bytes:
    return len(header).to_bytes(LENGTH_BYTES, "little") + header + tensors


def read_all(data: bytes) -> None:
    """Every reader either answers or refuses."""
    for reader in (unpack, unpack_request, unpack_parcel, unpack_call):
        with contextlib.suppress(ProtocolError):
            reader(data)
    with contextlib.suppress(ProtocolError):
        replies = unpack_replies(data)
        for reply in replies if isinstance(replies, list) else ():
            update = reply.update()
            check_update(update, spec_of(update.tensors), "client 0")
            assert 0 <= update.weight <= MAX_WEIGHT


def reply_header(said: bytes) -> bytes:
    """The header of one reply with these values."""
    about = b'{"client": 0, "verb": "update", "step": 0, "run": "", "refusal": null, "values": '
    return b'{"stacked": false, "replies": [' + about + said + b"}]}"


@settings(max_examples=examples(150))
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages(whole: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.binary(max_size=6))
    length = data.draw(st.integers(0, 6))
    read_all(whole[:place] + put + whole[place + length :])


@settings(max_examples=examples(150))
@given(st.dictionaries(st.sampled_from(KEYS), plain))
def test_headers_of_any_content(header: dict[str, Any]) -> None:
    read_all(framed(json.dumps(header).encode()))


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(max_size=4), plain, max_size=3))
def test_tensor_tables_of_any_content(table: dict[str, Any]) -> None:
    text = json.dumps(table).encode()
    tensors = len(text).to_bytes(8, "little") + text + bytes(32)
    read_all(framed(reply_header(b'{"weight": 1, "metrics": {}}'), tensors))


@settings(max_examples=examples(100))
@given(
    dtype=st.sampled_from(["F32", "I64", "F99", "BOOL", "U8", "F8_E4M3"]),
    shape=st.lists(st.sampled_from([0, 1, 2, 2**31, 2**63, 2**64, -1]), max_size=3),
    offsets=st.lists(st.sampled_from([0, 8, 16, 32, 2**62, 2**64]), max_size=3),
)
def test_tensors_of_any_form(dtype: str, shape: list[int], offsets: list[int]) -> None:
    table = {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
    text = json.dumps(table).encode()
    read_all(
        framed(
            reply_header(b'{"weight": 1, "metrics": {}}'),
            len(text).to_bytes(8, "little") + text + bytes(32),
        )
    )


@pytest.mark.parametrize(
    "said",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"weight": NaN, "metrics": {}}',
        b'{"weight": 1, "metrics": {"train_loss": Infinity}}',
        b'{"weight": 1' + b"0" * 400 + b', "metrics": {}}',
        b'{"weight": ' + b"9" * 5000 + b', "metrics": {}}',
        b'{"weight": "1", "metrics": {}}',
        b'{"weight": true, "metrics": {}}',
    ],
    ids=["lists", "objects", "nan", "infinity", "large", "digits", "text", "true"],
)
def test_extreme_replies_are_refused(said: bytes) -> None:
    def read() -> None:
        (reply,) = unpack_replies(framed(reply_header(said)))  # type: ignore[misc]
        reply.update()

    with pytest.raises(ProtocolError, match=r"header|incomplete"):
        read()


@given(st.floats(allow_nan=True))
def test_weights_that_pass_add_up(weight: float) -> None:
    update = Update({}, weight)
    try:
        check_update(update, {}, "client 0")
    except ProtocolError:
        assert not 0 <= weight <= MAX_WEIGHT
    else:
        assert math.isfinite(weight * 1e9)
