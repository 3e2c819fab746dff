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
from fedcord.engine.messages import (
    LENGTH_BYTES,
    pack_answer,
    pack_job,
    unpack,
    unpack_answer,
    unpack_job,
)
from fedcord.engine.visit import MAX_WEIGHT, Job, Refusal, check_update
from tests.faults.budget import examples

TENSORS = {"model.w": torch.arange(4.0), "n": torch.tensor(3)}
MESSAGES = [
    pack_job(Job("update", TENSORS, 2, 5, 7, (0, 3))),
    pack_answer(Update(TENSORS, 12.0, {"train_loss": 0.5}), {"kept": torch.ones(2)}),
    pack_answer(Refusal("client 3: no"), {}),
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
KEYS = ["verb", "round", "num_rounds", "seed", "models_of", "weight", "metrics", "refusal"]


def framed(header: bytes, tensors: bytes = encode(TENSORS)) -> bytes:
    return len(header).to_bytes(LENGTH_BYTES, "little") + header + tensors


def read_all(data: bytes) -> None:
    """Every reader either answers or refuses."""
    for reader in (unpack, unpack_job):
        with contextlib.suppress(ProtocolError):
            reader(data)
    with contextlib.suppress(ProtocolError):
        answer, _ = unpack_answer(data)
        if isinstance(answer, Update):
            check_update(answer, spec_of(answer.tensors), 0)
            assert 0 <= answer.weight <= MAX_WEIGHT


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages(whole: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(whole)))
    put = data.draw(st.binary(max_size=6))
    length = data.draw(st.integers(0, 6))
    read_all(whole[:place] + put + whole[place + length :])


@settings(max_examples=examples(150), deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), plain))
def test_headers_of_any_content(header: dict[str, Any]) -> None:
    read_all(framed(json.dumps(header).encode()))


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.text(max_size=4), plain, max_size=3))
def test_tensor_tables_of_any_content(table: dict[str, Any]) -> None:
    text = json.dumps(table).encode()
    tensors = len(text).to_bytes(8, "little") + text + bytes(32)
    read_all(framed(b'{"weight": 1, "metrics": {}}', tensors))


@settings(max_examples=examples(100), deadline=None)
@given(
    dtype=st.sampled_from(["F32", "I64", "F99", "BOOL", "U8", "F8_E4M3"]),
    shape=st.lists(st.sampled_from([0, 1, 2, 2**31, 2**63, 2**64, -1]), max_size=3),
    offsets=st.lists(st.sampled_from([0, 8, 16, 32, 2**62, 2**64]), max_size=3),
)
def test_tensors_of_any_form(dtype: str, shape: list[int], offsets: list[int]) -> None:
    table = {"x": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}
    text = json.dumps(table).encode()
    read_all(
        framed(b'{"weight": 1, "metrics": {}}', len(text).to_bytes(8, "little") + text + bytes(32))
    )


@pytest.mark.parametrize(
    "header",
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
def test_extreme_headers_are_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="header"):
        unpack_answer(framed(header))


@given(st.floats(allow_nan=True))
def test_weights_that_pass_add_up(weight: float) -> None:
    update = Update({}, weight)
    try:
        check_update(update, {}, 0)
    except ProtocolError:
        assert not 0 <= weight <= MAX_WEIGHT
    else:
        assert math.isfinite(weight * 1e9)
