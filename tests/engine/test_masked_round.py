"""Masked rounds through the engines: exact sums, drop-outs in every step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from fedcord.algorithms.analytic.features import FeatureMap
from fedcord.algorithms.contrastive.moon import MOON
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.fedproto import FedProto
from fedcord.checks.faulty_transport import FaultPlan, FaultyTransport, Tampering
from fedcord.core.contract import Algorithm, Env, ServerState, Update
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import Tensors, hash_tensors
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.patience import Patience
from fedcord.engine.requests import (
    MASKING,
    Parcel,
    Reply,
    Request,
    Verb,
)
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.transport import Delivery, Transport
from fedcord.engine.transports.processes import ProcessesTransport
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.engine.transports.wire import WireTransport
from fedcord.secure.site import SEALED_BYTES
from fedcord.store.checkpoint import Checkpoint
from tests import federation
from tests.engine.masked_people import SIZES, SUMS, TRAINED, people

EVERYONE = tuple(range(len(SIZES)))
SHARE = 0.6  # three of five
LENIENT = Patience(quorum=0.1)


def sequential(method: Algorithm) -> Transport:
    node = ClientNode(method, federation.task(), people(), InProcessMemory())
    return SequentialTransport(node)


def wire(method: Algorithm) -> Transport:
    return WireTransport.rebuilding(federation.blueprint(method), people())


def trained(
    method: Algorithm,
    transport: Transport,
    secure: float | None = SHARE,
    clients: Sequence[int] = EVERYONE,
    rounds: int = 1,
) -> tuple[ServerState, list[RoundRecord]]:
    env, records = federation.env(rounds=rounds), list[RoundRecord]()
    with contextlib.closing(transport):
        state = run_rounds(
            method,
            Federation(transport, "run", patience=LENIENT),
            env,
            method.init(env),
            Schedule(rounds, lambda _: clients, secure=secure),
            lambda state, record: records.append(record),
        )
    return state, records


def in_the_sum(state: ServerState) -> tuple[int, ...]:
    return tuple(state.private["ledger.client"].tolist())


@lru_cache
def plain_sum(clients: tuple[int, ...]) -> ServerState:
    """After an open round of these clients."""
    return trained(SUMS, sequential(SUMS), secure=None, clients=clients)[0]


def assert_is_plain_sum(state: ServerState) -> None:
    """The state is what an open round of those in the sum leads to."""
    wanted = plain_sum(in_the_sum(state))
    for name in ("gram", "moment", "class_count", "target_square", "tag_sum"):
        gap = (state.private[f"sum.{name}"] - wanted.private[f"sum.{name}"]).abs().max()
        assert float(gap) <= 1e-9
    gap = (state.result["head.weight"] - wanted.result["head.weight"]).abs().max()
    assert float(gap) <= 1e-9


class Leaving:
    """Another transport from which clients are gone from a step on."""

    def __init__(self, inner: Transport, gone: Mapping[Verb, Collection[int]]) -> None:
        self.nodes = inner.nodes
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self._inner, self._gone = inner, gone
        self._away: set[int] = set()

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        self._away |= set(self._gone.get(request.verb, ()))
        for place, parcel in enumerate(parcels):
            for client in parcel.clients or (-1,):
                who = (client,) if client >= 0 else ()
                if client in self._away and request.verb in MASKING:
                    yield Delivery(place, "absent", reason="unreachable", clients=who)
                    continue
                self.asked.append((request.verb, who))
                alone = replace(parcel, clients=who)
                for delivery in self._inner.exchange(request, [alone], deadline):
                    yield replace(delivery, place=place, clients=who or None)

    def close(self) -> None:
        self._inner.close()


# --- the same result on every engine --------------------------------------------------------------


@pytest.mark.parametrize("reach", [sequential, wire])
def test_the_sum_of_masked_updates_is_the_plain_one(reach: Callable[..., Transport]) -> None:
    state, (record,) = trained(SUMS, reach(SUMS))
    assert in_the_sum(state) == EVERYONE
    assert_is_plain_sum(state)
    assert (record.participants, record.refused, record.missing) == (5, (), {})
    exact = replace(SUMS, wire="fixed64")
    masked, open_ = (trained(exact, reach(exact), secure)[0] for secure in (SHARE, None))
    for name, tensor in open_.model.items():
        assert torch.equal(masked.model[name], tensor)  # fixed point travels as it is


@pytest.mark.parametrize("method", [TRAINED, MOON(local=LocalSGD(lr=0.1))])
def test_averages_and_memories_are_those_of_open_rounds(method: Algorithm) -> None:
    states = [
        trained(method, reach(method), secure, rounds=3)[0]
        for reach, secure in ((sequential, None), (sequential, SHARE), (wire, SHARE))
    ]
    found = [hash_tensors(Checkpoint(state, {}).tensors()) for state in states]
    assert found[0] == found[1] == found[2]


def test_worker_processes_keep_their_part_of_a_session() -> None:
    method = TRAINED
    transport = ProcessesTransport(federation.blueprint(method), people(), workers=2)
    found, records = trained(method, transport, rounds=2)
    wanted, _ = trained(method, sequential(method), rounds=2)
    assert hash_tensors(found.shared) == hash_tensors(wanted.shared)
    assert all(record.missing == {} and record.refused == () for record in records)


def test_a_round_that_needs_single_updates_is_not_masked() -> None:
    method = FedProto(local=LocalSGD(lr=0.1))
    transport = Leaving(sequential(method), {})
    trained(method, transport)
    assert not {verb for verb, _ in transport.asked} & set(MASKING)


# --- who leaves when ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", MASKING)
def test_up_to_two_of_five_may_leave_in_any_step(verb: Verb) -> None:
    for gone in [*combinations(EVERYONE, 1), *combinations(EVERYONE, 2)]:
        state, (record,) = trained(SUMS, Leaving(sequential(SUMS), {verb: gone}))
        if verb == "unmask":  # their updates had arrived
            assert in_the_sum(state) == EVERYONE
            helped_not = "did not help to open the sum: absent: unreachable"
            assert record.events == tuple(f"client {k} {helped_not}" for k in gone)
        else:
            assert in_the_sum(state) == tuple(k for k in EVERYONE if k not in gone)
            assert record.missing == dict.fromkeys(gone, "absent: unreachable")
        assert_is_plain_sum(state)


def test_they_may_leave_one_after_the_other() -> None:
    transport = Leaving(wire(SUMS), {"share": [1], "mask": [3]})
    state, _ = trained(SUMS, transport)
    assert in_the_sum(state) == (0, 2, 4)
    assert_is_plain_sum(state)


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("advertise", "sent their keys"),
        ("share", "shared their secrets"),
        ("mask", "sent their masked update"),
        ("unmask", "helped to open the sum"),
    ],
)
def test_with_fewer_than_the_threshold_nothing_is_opened(verb: Verb, what: str) -> None:
    for gone in combinations(EVERYONE, 3):
        transport = Leaving(sequential(SUMS), {verb: gone})
        with pytest.raises(ProtocolError, match=rf"round 1: 2 of 5 clients {what}, fewer than"):
            trained(SUMS, transport)
        later = MASKING[MASKING.index(verb) + 1 :]
        assert not [asked for asked, _ in transport.asked if asked in later]


def test_the_message_says_why_and_what_to_do() -> None:
    transport = Leaving(sequential(SUMS), {"mask": [0, 1, 2]})
    with pytest.raises(
        ProtocolError,
        match=r"threshold of 3 .* nothing of any of them was revealed; the last good checkpoint is "
        r"intact\. Go on with --resume .* First reason: client 0 absent: unreachable",
    ):
        trained(SUMS, transport)


def test_the_quorum_holds_in_masked_rounds_too() -> None:
    transport = Leaving(sequential(SUMS), {"mask": [4]})
    env, strict = federation.env(rounds=1), Patience(quorum=1.0)
    with pytest.raises(ProtocolError, match=r"4 of 5 clients answered, fewer than the quorum of 1"):
        run_rounds(
            SUMS,
            Federation(transport, "run", patience=strict),
            env,
            SUMS.init(env),
            Schedule(1, lambda _: EVERYONE, secure=SHARE),
        )
    assert "unmask" not in [verb for verb, _ in transport.asked]


def test_an_update_that_does_not_fit_is_refused_by_its_own_client_and_recovered() -> None:
    huge = people().client(2)
    inputs = people().inputs.clone()
    start = people().bounds[2, 0]
    inputs[start : start + len(huge.train)] *= 1e7
    odd = replace(people(), inputs=inputs)
    method = replace(SUMS, features=FeatureMap(source="pixels", expansion="none", unit=False))
    node = ClientNode(method, federation.task(), odd, InProcessMemory())
    state, (record,) = trained(method, SequentialTransport(node))
    (reason,) = record.refused
    assert "does not fit fixed point" in reason
    assert in_the_sum(state) == (0, 1, 3, 4)


def test_a_server_that_died_in_the_middle_begins_anew_with_the_same_nodes() -> None:
    node = ClientNode(SUMS, federation.task(), people(), InProcessMemory(as_bytes=True))

    class Dying(Leaving):
        def exchange(
            self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
        ) -> Iterator[Delivery]:
            if request.verb == "unmask":
                raise KeyboardInterrupt
            return super().exchange(request, parcels, deadline)

    with pytest.raises(KeyboardInterrupt):
        trained(SUMS, Dying(SequentialTransport(node), {}))
    state, _ = trained(SUMS, Leaving(SequentialTransport(node), {"mask": [2]}))
    assert in_the_sum(state) == (0, 1, 3, 4)
    assert_is_plain_sum(state)


# --- networks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [sequential, wire])
def test_answers_twice_and_in_any_order_change_nothing(reach: Callable[..., Transport]) -> None:
    plan = FaultPlan(duplicate=0.5, reorder=True, verbs=MASKING)
    found, _ = trained(TRAINED, FaultyTransport(reach(TRAINED), plan), rounds=3)
    wanted, _ = trained(TRAINED, sequential(TRAINED), rounds=3)
    assert hash_tensors(found.shared) == hash_tensors(wanted.shared)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_lost_the_sum_is_that_of_those_in_it_or_none(seed: int) -> None:
    plan = FaultPlan(seed, drop=0.12, delay=0.12, corrupt=0.1, reorder=True, verbs=MASKING)
    transport = FaultyTransport(wire(SUMS), plan)
    try:
        state, (record,) = trained(SUMS, transport)
    except ProtocolError as error:
        assert "fewer than the threshold of 3" in str(error)  # noqa: PT017 - either may be
        assert len(transport.met) >= 3
    else:
        assert len(in_the_sum(state)) + len(record.missing) == 5
        assert_is_plain_sum(state)


def test_late_answers_of_earlier_rounds_are_left_out() -> None:
    plan = FaultPlan(seed=0, delay=0.3, verbs=("mask",))
    transport = FaultyTransport(sequential(TRAINED), plan)
    _, records = trained(TRAINED, transport, rounds=3)
    assert {fate for fate, _, _ in transport.met} == {"delay"}
    assert any("answered 'mask' of step 0, not 'mask' of step 1" in e for e in records[1].events)


def test_an_answer_of_an_earlier_attempt_is_named() -> None:
    def stale(request: Request, reply: Reply) -> Reply:
        if request.verb == "mask" and reply.client == 1:
            return replace(reply, values={**reply.values, "session": "before"})
        return reply

    state, (record,) = trained(SUMS, Tampering(sequential(SUMS), stale))
    assert record.refused == ("client 1 answered an earlier attempt at this round.",)
    assert in_the_sum(state) == (0, 2, 3, 4)
    assert_is_plain_sum(state)


@pytest.mark.parametrize("verb", MASKING)
def test_answers_of_another_form_are_refused_by_name(verb: Verb) -> None:
    def spoiled(request: Request, reply: Reply) -> Reply:
        if request.verb == verb and reply.client == 3:
            return replace(reply, tensors={n: t[:-1] for n, t in reply.tensors.items()})
        return reply

    state, (record,) = trained(SUMS, Tampering(sequential(SUMS), spoiled))
    (said,) = record.events if verb == "unmask" else record.refused
    assert "client 3 sent" in said
    assert_is_plain_sum(state)


def test_a_message_that_was_changed_is_noticed_in_the_sum() -> None:
    def other_masks(request: Request, reply: Reply) -> Reply:
        if request.verb == "mask" and reply.client == 3:
            return replace(reply, tensors={n: t + 1 for n, t in reply.tensors.items()})
        return reply

    with pytest.raises(ProtocolError, match="does not count the 5 messages in it"):
        trained(SUMS, Tampering(sequential(SUMS), other_masks))


def test_counts_that_no_client_may_have_are_noticed_in_the_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lying(self: ClientNode, update: Update, request: Request, env: Env) -> Update:
        if env.client != 3:
            return update
        count = update.tensors["stats.class_count"].clone()
        count[0] -= 10**6
        tag = update.tensors["stats.tag_sum"] // update.tensors["stats.class_count"].sum()
        spoiled = {"stats.class_count": count, "stats.tag_sum": tag * count.sum()}
        return replace(update, tensors={**update.tensors, **spoiled})

    monkeypatch.setattr(ClientNode, "_to_send", lying)
    with pytest.raises(ProtocolError, match=r"all clients together sent stats\.class_count"):
        trained(SUMS, sequential(SUMS))


# --- what passes ----------------------------------------------------------------------------------


class Listening:
    """Another transport that notes what comes back."""

    def __init__(self, inner: Transport) -> None:
        self.nodes = inner.nodes
        self.replies: list[Reply] = []
        self._inner = inner

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        for delivery in self._inner.exchange(request, parcels, deadline):
            assert not isinstance(delivery.replies, bytes)
            self.replies += delivery.replies
            yield delivery

    def close(self) -> None:
        self._inner.close()


def chance_of_bytes(tensors: Tensors) -> float:
    """How likely bytes at least as uneven are if all are equally likely (chi-square)."""
    data = b"".join(t.contiguous().numpy().tobytes() for t in tensors.values())
    counts = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    return float(stats.chisquare(counts).pvalue)


def test_a_masked_update_shows_neither_numbers_nor_weight_nor_metrics() -> None:
    wide = replace(SUMS, features=FeatureMap(width=80))
    for method, rounds in ((wide, 1), (TRAINED, 1)):
        masked, open_ = Listening(sequential(method)), Listening(sequential(method))
        trained(method, masked, rounds=rounds)
        trained(method, open_, secure=None, rounds=rounds)
        plain = [reply for reply in open_.replies if reply.verb == "update"]
        hidden = [reply for reply in masked.replies if reply.verb == "mask"]
        assert len(plain) == len(hidden) == 5
        assert max(chance_of_bytes(reply.tensors) for reply in plain) < 1e-9  # the test can fail
        assert min(chance_of_bytes(reply.tensors) for reply in hidden) > 1e-7
        assert all(set(reply.values) == {"session", "keeps"} for reply in hidden)
        assert "update" not in {reply.verb for reply in masked.replies}


def test_bytes_are_counted_by_phase() -> None:
    n = len(SIZES)
    _, (record,) = trained(SUMS, sequential(SUMS))
    _, (open_,) = trained(SUMS, sequential(SUMS), secure=None)
    keys, shares, sums, unmasking = (
        record.traffic[phase] for phase in ("key exchange", "key shares", "training", "unmasking")
    )
    assert (keys.up, keys.down) == (64 * n, 0)
    assert (shares.up, shares.down) == (SEALED_BYTES * n * (n - 1), n * (72 * n + 8))
    assert sums.up - open_.traffic["training"].up == 8 * n  # the number that counts messages
    assert sums.down - open_.traffic["training"].down == 8 * n * n  # who has shared
    assert unmasking.up == 33 * n * n
    assert unmasking.down == n * (8 * n + (n - 1) * (8 + SEALED_BYTES))
    phases = (keys, shares, sums, unmasking)
    assert record.bytes_up == sum(traffic.up for traffic in phases)
    assert record.bytes_down == sum(traffic.down for traffic in phases)
