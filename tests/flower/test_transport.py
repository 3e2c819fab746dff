"""Flower's grid as a transport: every answer, and what comes in its place, under the right node."""

from __future__ import annotations

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedcord.core.errors import CheckpointError, ProtocolError
from fedcord.engine.requests import (
    Parcel,
    Request,
    answered,
    pack_failure,
    pack_replies,
    unpack_call,
)
from fedcord.engine.transport import Delivery
from fedcord.flower import messages
from fedcord.flower.messages import BYTES, TERMS, WORDS, from_records, to_records
from fedcord.flower.transport import FlowerTransport
from tests.flower.grid import Answer, FakeGrid

REQUEST = Request("evaluate", step=3, run="r")


def _echo(message: Message) -> RecordDict:
    data, words = from_records(message.content)
    assert words == {TERMS: "the terms"}
    request, parcel = unpack_call(data)
    replies = [answered(request, client, values={"n": client}) for client in parcel.clients]
    return to_records(pack_replies(replies))


def _ask(
    nodes: dict[int, Answer], parcels: list[Parcel], deadline: float | None = None
) -> tuple[dict[int, Delivery], FakeGrid]:
    grid = FakeGrid(nodes)
    found = list(FlowerTransport(grid, "the terms").exchange(REQUEST, parcels, deadline))
    assert len({one.place for one in found}) == len(found)
    return {one.place: one for one in found}, grid


def _parcels(count: int) -> list[Parcel]:
    return [Parcel((k,), node=k) for k in range(count)]


def test_every_node_gets_its_parcel_and_is_heard() -> None:
    found, grid = _ask({700: _echo, 42: _echo, 99: _echo}, _parcels(3))
    assert [found[k].outcome for k in range(3)] == ["arrived"] * 3
    assert [found[k].node for k in range(3)] == [0, 1, 2]
    # nodes are counted by Flower's numbers, and each was asked once
    assert sorted(m.metadata.dst_node_id for m in grid.sent) == [42, 99, 700]
    asked = {m.metadata.dst_node_id: unpack_call(from_records(m.content)[0]) for m in grid.sent}
    assert [asked[flower][1].clients for flower in (42, 99, 700)] == [(0,), (1,), (2,)]
    assert all(one.sent > 0 for one in found.values())


def test_a_node_has_one_message_at_a_time() -> None:
    at_once: list[int] = []
    open_now = 0

    def busy(message: Message) -> RecordDict:
        nonlocal open_now
        at_once.append(len(grid.sent) - open_now)
        open_now += 1
        return _echo(message)

    grid = FakeGrid({5: busy})
    parcels = [Parcel((k,), node=0) for k in range(4)]
    found = list(FlowerTransport(grid, "the terms").exchange(REQUEST, parcels))
    assert [one.place for one in found] == [0, 1, 2, 3]
    assert at_once == [1, 1, 1, 1]


def test_what_no_node_must_do_is_done_by_whoever_is_free() -> None:
    parcels = [Parcel((), {"first": k}) for k in range(4)]
    found, grid = _ask({1: _echo, 2: _echo}, parcels)
    assert len(found) == 4
    assert {m.metadata.dst_node_id for m in grid.sent} == {1, 2}


def test_an_error_of_the_superlink_is_about_the_node_that_was_asked() -> None:
    def gone(_: Message) -> Error:
        return Error(ErrorCode.NODE_UNAVAILABLE, "Node Unavailable")

    def lost(_: Message) -> Error:
        return Error(ErrorCode.MESSAGE_UNAVAILABLE, "expired")

    def crashed(_: Message) -> Error:
        trace = (
            "Traceback (most recent call last):\n  File x\nZeroDivisionError: division by zero\n"
        )
        return Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, trace)

    found, _ = _ask({10: _echo, 20: gone, 30: lost, 40: crashed}, _parcels(4))
    assert [found[k].outcome for k in range(4)] == ["arrived", "absent", "late", "refused"]
    assert found[1].reason == "its SuperNode is gone (Node Unavailable)"
    assert found[2].reason.startswith("its answer was lost on the way")
    assert found[3].reason == "its app failed (ZeroDivisionError: division by zero)"


def test_who_is_not_connected_is_absent() -> None:
    grid = FakeGrid({1: _echo, 2: _echo})
    reached = FlowerTransport(grid, "the terms")
    assert list(reached.nodes) == [0, 1]
    del grid.nodes[1]
    found = {one.place: one for one in reached.exchange(REQUEST, _parcels(2))}
    assert (found[0].outcome, found[0].reason) == ("absent", "it is not connected")
    assert found[1].outcome == "arrived"
    # comes back under another number of Flower's: a new node
    grid.nodes[77] = _echo
    assert list(reached.nodes) == [1, 2]
    grid.nodes.clear()
    (nobody,) = reached.exchange(REQUEST, [Parcel()])
    assert nobody.outcome == "absent"


def test_after_the_deadline_everybody_else_is_late() -> None:
    found, _ = _ask({1: _echo, 2: lambda _: None}, [*_parcels(2), Parcel((7,), node=1)], 0.05)
    assert [found[k].outcome for k in range(3)] == ["arrived", "late", "late"]
    assert found[1].reason == "no answer within 0.05 s"


def test_who_is_busy_with_the_past_gets_nothing_that_others_can_do() -> None:
    said: list[RecordDict | None] = [None]
    grid = FakeGrid({1: lambda _: said[0], 2: _echo})
    transport = FlowerTransport(grid, "the terms")
    late = list(transport.exchange(REQUEST, [Parcel((0,), node=0)], 0.05))
    assert [one.outcome for one in late] == ["late"]
    anywhere = [Parcel((k,)) for k in range(3)]
    assert {one.node for one in transport.exchange(REQUEST, anywhere)} == {1}
    said[0] = to_records(pack_replies([]))  # at last, and nobody asks for it any more
    found = {one.node for _ in range(3) for one in transport.exchange(REQUEST, anywhere)}
    assert found == {0, 1}


def test_where_all_are_busy_the_next_message_waits_its_turn() -> None:
    grid = FakeGrid({1: lambda _: None})
    transport = FlowerTransport(grid, "the terms")
    for _ in range(2):
        (found,) = transport.exchange(REQUEST, [Parcel((0,))], 0.05)
        assert found.outcome == "late"
    assert len(grid.sent) == 2


def test_a_second_answer_is_nobodys() -> None:
    grid = FakeGrid({1: _echo})
    grid.duplicate = True
    found = list(FlowerTransport(grid, "the terms").exchange(REQUEST, _parcels(1)))
    assert [one.outcome for one in found] == ["arrived"]


def _array(data: bytes, dtype: str = "uint8", shape: tuple[int, ...] | None = None) -> ArrayRecord:
    return ArrayRecord({BYTES: Array(dtype, shape or (len(data),), "x", data)})


GARBAGE: dict[str, RecordDict | Exception] = {
    "empty": RecordDict({}),
    "no words": RecordDict({BYTES: _array(b"abc")}),
    "other type": RecordDict({BYTES: _array(b"abcd", "float32"), WORDS: ConfigRecord({})}),
    "other shape": RecordDict({BYTES: _array(b"abcd", shape=(2, 2)), WORDS: ConfigRecord({})}),
    "numbers": RecordDict({BYTES: _array(b"abcd"), WORDS: ConfigRecord({"terms": 3})}),
    "pieces that do not fit": ValueError("Unexpected set of `children`."),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_refused_under_its_node_and_spoils_no_other(kind: str) -> None:
    found, _ = _ask({1: _echo, 2: lambda _: GARBAGE[kind], 3: _echo}, _parcels(3))
    assert [found[k].outcome for k in range(3)] == ["arrived", "refused", "arrived"]
    assert "its answer is unreadable" in found[1].reason


def test_what_fails_at_a_site_is_its_refusal() -> None:
    failure = to_records(pack_failure(CheckpointError("memory is damaged")))
    found, _ = _ask({1: _echo, 2: lambda _: failure}, _parcels(2))
    assert (found[1].outcome, found[1].reason) == ("refused", "memory is damaged")


def test_a_message_that_flower_cannot_carry_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(ProtocolError, match="11 bytes, but Flower carries 10 at most"):
        to_records(b"x" * 11)
    large = RecordDict({BYTES: _array(b"x" * 11), WORDS: ConfigRecord({})})
    with pytest.raises(ProtocolError, match="11 bytes, which is too many"):
        from_records(large)


def test_waiting_ends_when_everybody_is_there_or_the_time_is_over() -> None:
    grid = FakeGrid({1: _echo})
    told: list[int] = []

    def tell(there: int) -> None:
        told.append(there)
        grid.nodes[there + 1] = _echo

    FlowerTransport(grid, "").wait_for(3, 60.0, tell)
    assert told == [1, 2, 3]
    FlowerTransport(FakeGrid({}), "").wait_for(3, 0.01, told.append)
    assert set(told[3:]) == {0}
