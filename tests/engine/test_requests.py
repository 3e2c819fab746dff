"""What passes between server and nodes survives, and nothing else is believed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import DataError, ProtocolError
from fedcord.core.tensors import hash_tensors
from fedcord.engine.requests import (
    Parcel,
    Reply,
    Request,
    pack,
    pack_call,
    pack_failure,
    pack_replies,
    unpack,
    unpack_call,
    unpack_parcel,
    unpack_replies,
    unpack_request,
)

TENSORS = {"model.w": torch.arange(4.0), "n": torch.tensor(3)}
ASKED = Request("update", TENSORS, round=2, num_rounds=5, seed=7, step=2, run="r")
READERS = (unpack, unpack_call, unpack_request, unpack_parcel, unpack_replies)


def test_a_call_survives_the_wire() -> None:
    request, parcel = unpack_call(pack_call(ASKED, Parcel((3, 5), {"first": 1})))
    assert (request.verb, request.round, request.num_rounds, request.seed) == ("update", 2, 5, 7)
    assert (request.step, request.run) == (2, "r")
    assert hash_tensors(request.shared) == hash_tensors(TENSORS)
    assert (parcel.clients, parcel.options) == ((3, 5), {"first": 1})


def test_replies_survive_the_wire() -> None:
    values = {"weight": 0.1, "metrics": {"train_loss": 1 / 3}}
    sent = [
        Reply(3, "update", 2, "r", TENSORS, values),
        Reply(5, "update", 2, "r", refusal="client 5: no"),
        Reply(None, "hello"),
    ]
    found = unpack_replies(pack_replies(sent))
    assert isinstance(found, list)
    update = found[0].update()
    assert (update.weight, update.metrics) == (0.1, {"train_loss": 1 / 3})
    assert hash_tensors(update.tensors) == hash_tensors(TENSORS)
    assert [reply.client for reply in found] == [3, 5, None]
    assert found[1].refusal == "client 5: no"


def test_a_failure_comes_back_as_the_error_it_was() -> None:
    found = unpack_replies(pack_failure(DataError("no such file")))
    assert isinstance(found, DataError)
    assert str(found) == "no such file"
    strange = unpack_replies(pack({"error": "SystemExit", "message": "x"}, {}))
    assert type(strange) is ProtocolError


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_never_a_crash(data: bytes) -> None:
    for reader in READERS:
        with pytest.raises(ProtocolError, match=r"."):
            reader(data)


@given(st.integers(0, 600))
def test_a_truncated_message_is_refused(cut: int) -> None:
    whole = pack_call(ASKED, Parcel((1,)))
    with pytest.raises(ProtocolError, match=r"."):
        unpack_call(whole[: min(cut, len(whole) - 1)])


@pytest.mark.parametrize(
    "header",
    [{}, {"verb": "destroy", "round": 1, "num_rounds": 1, "seed": 1}, {"verb": "update"}],
)
def test_headers_are_checked(header: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="request"):
        unpack_request(pack(header, {}))
    with pytest.raises(ProtocolError, match="parcel"):
        unpack_parcel(pack(header, {}))
    with pytest.raises(ProtocolError, match="reply"):
        unpack_replies(pack(header, {}))


@pytest.mark.parametrize(
    "values", [{}, {"weight": "x", "metrics": {}}, {"weight": 1.0, "metrics": 3}]
)
def test_an_update_without_weight_or_metrics_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="client 4 sent an update that is incomplete"):
        Reply(4, "update", values=values).update("client 4")


def test_a_refusal_read_as_an_update_says_why_there_is_none() -> None:
    with pytest.raises(ProtocolError, match=r"^client 4: the sums overflowed; scale down\.$"):
        Reply(4, "update", refusal="client 4: the sums overflowed; scale down.").update("client 4")
