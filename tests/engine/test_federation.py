"""The server sorts, counts and names; it believes nobody it did not ask."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.checks.faulty_transport import FaultPlan, FaultyTransport, Tampering
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError, NumericalError, ProtocolError
from fedcord.core.tensors import hash_tensors, num_bytes
from fedcord.engine.agreement import Agreement
from fedcord.engine.federation import Federation, Missing
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.patience import Patience
from fedcord.engine.population import Population
from fedcord.engine.requests import Parcel, Reply, Request, pack_call
from fedcord.engine.rounds import RoundRecord, Schedule, finish_clients, run_rounds
from fedcord.engine.transport import Delivery, Transport
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.engine.transports.wire import WireTransport
from tests import federation

ALGORITHM = FedAvg(LocalSGD(lr=0.1))
EVERYONE = (0, 1, 2, 3)
NAMES = {0: "Süd", 2: "Hôpital Nord"}


def _node(agreement: Agreement | None = None, people: Population | None = None) -> ClientNode:
    held = people or federation.population()
    return ClientNode(ALGORITHM, federation.task(), held, InProcessMemory(), agreement)


def _faulty(plan: FaultPlan, patience: Patience = Patience(quorum=0.1)) -> Federation:  # noqa: B008
    return Federation(FaultyTransport(SequentialTransport(_node()), plan), patience=patience)


def _run(
    reached: Federation, rounds: int = 4, clients: Sequence[int] = EVERYONE
) -> tuple[ServerState, list[RoundRecord]]:
    env, records = federation.env(rounds=rounds), list[RoundRecord]()
    state = run_rounds(
        ALGORITHM,
        reached,
        env,
        ALGORITHM.init(env),
        Schedule(rounds, lambda _: clients),
        lambda state, record: records.append(record),
    )
    return state, records


def _plain() -> Federation:
    return Federation(SequentialTransport(_node()))


def test_the_roll_tells_sizes() -> None:
    told = _plain().members[1]
    assert (told.train, told.validation, told.test) == (25, 0, 6)
    assert _plain().common_test == 300


class Several:
    """Several nodes, each called in turn for what it may do."""

    def __init__(self, nodes: list[ClientNode]) -> None:
        self._nodes = nodes
        self.nodes = range(len(nodes))
        self.seen: list[tuple[int, tuple[int, ...]]] = []

    def exchange(
        self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
    ) -> Iterator[Delivery]:
        for place, parcel in enumerate(parcels):
            node = place % len(self._nodes) if parcel.node is None else parcel.node
            self.seen.append((node, parcel.clients))
            yield Delivery(place, "arrived", list(self._nodes[node].answer(request, parcel)), node)

    def close(self) -> None: ...


def test_a_node_that_does_not_fit_is_refused_by_name_with_what_differs() -> None:
    ours = Agreement("run", {"num_classes": 3, "mean": [0.5]})
    other = replace(ours, task={"num_classes": 4, "mean": [0.5]}, version="9.9")
    reached = Federation(Several([_node(ours), _node(other)]), agreement=ours)
    (event,) = reached.take_events()
    assert "node 1 with client 0, 1, 2, 3 was refused" in event
    assert "num_classes is 4 there and 3 here" in event
    assert "version is '9.9' there" in event
    assert "mean" not in event
    with pytest.raises(
        ConfigError, match=r"no client answered the roll call; node 0 .* was refused"
    ):
        Federation(Several([_node(other)]), agreement=ours)


def test_two_nodes_that_say_they_are_one_client_must_hold_the_same_data() -> None:
    people = federation.population()
    other = replace(people, labels=people.labels.flip(0))  # as many, but not the same
    twice = Several([_node(people=people), _node(people=people)])
    assert len(Federation(twice).members) == people.num_clients
    with pytest.raises(ConfigError, match="two nodes say they are client 0, with different data"):
        Federation(Several([_node(people=people), _node(people=other)]))


def test_a_client_that_keeps_something_stays_where_it_is() -> None:
    from fedcord.algorithms.contrastive.moon import MOON

    algorithm, people = MOON(local=LocalSGD(lr=0.1)), federation.population()
    nodes = [ClientNode(algorithm, federation.task(), people, InProcessMemory()) for _ in range(2)]
    transport = Several(nodes)
    reached = Federation(transport)
    env = federation.env()
    run_rounds(algorithm, reached, env, algorithm.init(env), Schedule(3, lambda _: EVERYONE))
    homes = {client: node for node, clients in transport.seen for client in clients}
    visits = [(n, c) for n, clients in transport.seen for c in clients]
    assert all(homes[client] == node for node, client in visits)
    assert reached.keepers == EVERYONE
    alone = federation.sequential(algorithm, federation.task(), people)
    state = run_rounds(algorithm, alone, env, algorithm.init(env), Schedule(3, lambda _: EVERYONE))
    assert {k: hash_tensors(m) for k, m in reached.gather_memory().items()} == {
        k: hash_tensors(m) for k, m in alone.gather_memory().items()
    }
    assert state.round == 3


def test_without_faults_a_faulty_transport_changes_no_bit() -> None:
    wanted, _ = _run(_plain())
    found, records = _run(_faulty(FaultPlan(reorder=True, duplicate=0.5)))
    assert hash_tensors(found.shared) == hash_tensors(wanted.shared)
    assert any("answered twice; the first counts" in e for r in records for e in r.events)


@pytest.mark.parametrize("fate", ["drop", "delay", "corrupt"])
def test_the_round_goes_on_without_the_absent_the_late_and_the_garbled(fate: str) -> None:
    share = {fate: 1.0}
    plan = FaultPlan(spared=(0, 1, 3), **share)  # type: ignore[arg-type]
    found, records = _run(_faulty(plan))
    wanted, _ = _run(_plain(), clients=(0, 1, 3))
    assert hash_tensors(found.shared) == hash_tensors(wanted.shared)
    said = {"drop": "absent", "delay": "late", "corrupt": "refused"}[fate]
    assert all(list(r.missing) == [2] and r.missing[2].startswith(said) for r in records)


def test_a_late_answer_of_an_earlier_round_is_named_and_left_out() -> None:
    _, records = _run(_faulty(FaultPlan(delay=1.0, spared=(0, 1, 3))))
    later = [event for record in records[1:] for event in record.events]
    assert later
    assert all("client 2" in event and "left out" in event for event in later)


def test_fewer_than_the_quorum_end_the_round_with_words() -> None:
    plan = FaultPlan(drop=1.0, spared=(0, 1, 3))
    with pytest.raises(ProtocolError, match=r"3 of 4 clients answered.*client 2 absent.*--quorum"):
        _run(_faulty(plan, Patience()))
    _run(_faulty(plan, Patience(quorum=0.75)))
    with pytest.raises(NumericalError, match="all 4 updates were refused"):
        _run(_faulty(FaultPlan(drop=1.0), Patience(quorum=0.0)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"client": 7}, "client 7 was not asked; its answer in place of client "),
        ({"run": "another"}, "client 2 answered 'update' of step"),
        ({"step": 99}, "of step 99"),
        ({"verb": "evaluate"}, "answered 'evaluate'"),
    ],
)
def test_answers_nobody_asked_for_are_left_out(change: dict[str, object], words: str) -> None:
    def tampered(request: Request, reply: Reply) -> Reply:
        is_chosen = request.verb == "update" and reply.client == 2
        return replace(reply, **change) if is_chosen else reply  # type: ignore[arg-type]

    transport: Transport = Tampering(SequentialTransport(_node()), tampered)
    found, records = _run(Federation(transport, patience=Patience(quorum=0.5)))
    wanted, _ = _run(_plain(), clients=(0, 1, 3))
    assert hash_tensors(found.shared) == hash_tensors(wanted.shared)
    assert all(any(words in event for event in record.events) for record in records)
    assert all(list(record.missing) == [2] for record in records)


def test_a_deadline_makes_the_slow_late() -> None:
    reached = _plain()
    reached.patience = Patience(quorum=0.0, deadline=0.0)
    answers = list(reached.ask(Request("update"), [], "training"))
    assert answers == []
    request = Request("update", ALGORITHM.init(federation.env()).shared)
    late = list(reached.ask(request, EVERYONE, "training"))
    assert [a.outcome for a in late if isinstance(a, Missing)] == ["late"] * 4


def test_memory_and_tests_are_waited_for_whatever_the_deadline() -> None:
    from fedcord.algorithms.contrastive.moon import MOON

    algorithm, env = MOON(local=LocalSGD(lr=0.1)), federation.env(rounds=1)
    reached = federation.sequential(algorithm, env.task, federation.population())
    once = Schedule(1, lambda _: EVERYONE)
    state = run_rounds(algorithm, reached, env, algorithm.init(env), once)
    reached.patience = Patience(quorum=0.0, deadline=0.0)
    assert set(reached.gather_memory()) == set(EVERYONE)
    assert set(finish_clients(algorithm, reached, state, 0, EVERYONE)) == {0, 1, 3}


def test_a_round_is_not_held_up_by_who_is_late_to_its_test() -> None:
    """All but the last: then everybody is waited for."""

    class Slow(SequentialTransport):
        """Hurried tests come too late; there are as many as were asked for in a hurry."""

        hurried = 0

        def exchange(
            self, request: Request, parcels: Sequence[Parcel], deadline: float | None = None
        ) -> Iterator[Delivery]:
            if request.verb != "evaluate" or deadline is None:
                yield from super().exchange(request, parcels, None)
                return
            Slow.hurried += 1
            for place in range(len(parcels)):
                yield Delivery(place, "late", reason="no answer within 5 s")

    people = replace(federation.population(), test=federation.examples(0, 0))
    reached = Federation(Slow(_node(people=people)), patience=Patience(0.0, deadline=5.0))
    _, (first, last) = _run(reached, rounds=2)
    assert Slow.hurried == 1
    assert "client 0 is not in the test of this round: no answer within 5 s." in first.events
    assert first.evaluation is not None
    assert first.evaluation.total == 0
    assert last.evaluation is not None
    assert last.evaluation.total > 0
    assert not last.events


@pytest.mark.parametrize(
    "change", [{"task": 3}, {"members": [[0, 1]]}, {"members": [[0, -1, 0, 0]]}, {"data": None}]
)
def test_a_greeting_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    def tampered(request: Request, reply: Reply) -> Reply:
        values = {**reply.values, **change}
        if change == {"data": None}:
            del values["data"]
        return replace(reply, values=values)

    with pytest.raises(ConfigError, match="node 0 was refused: its greeting is incomplete"):
        Federation(Tampering(SequentialTransport(_node()), tampered))


def test_every_byte_is_counted_where_it_passes() -> None:
    plan, people = federation.blueprint(ALGORITHM), federation.population()
    wire, plain = Federation(WireTransport.rebuilding(plan, people)), _plain()
    passed = {}
    for engine, reached in {"wire": wire, "plain": plain}.items():
        state, (record,) = _run(reached, rounds=1)
        size, passed[engine] = num_bytes(state.shared), record.traffic
        training = passed[engine]["training"]
        assert (training.up, training.down) == (4 * (size + 8), 4 * size)
        assert (record.bytes_up, record.bytes_down) == (training.up, training.down)
        assert reached.take_traffic() == {}
    assert passed["plain"]["training"].framed_up == 0
    assert passed["wire"]["training"].framed_up > passed["wire"]["training"].up
    hello = len(pack_call(Request("hello"), Parcel()))
    assert passed["wire"]["roll call"].framed_down == hello


def test_personalisation_is_paid_for() -> None:
    from fedcord.algorithms.analytic.fedhip import FedHiP

    algorithm, env = FedHiP(), federation.env(rounds=1)
    reached = federation.sequential(algorithm, env.task, federation.population())
    state = run_rounds(
        algorithm, reached, env, algorithm.init(env), Schedule(1, lambda _: EVERYONE)
    )
    reached.take_traffic()
    finish_clients(algorithm, reached, state, 0, EVERYONE)
    passed = reached.take_traffic()
    assert passed["personalisation"].down == 4 * num_bytes(state.model)
    assert passed["evaluation"].down == 4 * num_bytes(state.model)


def _named(change: Callable[[Request, Reply], Reply] = lambda request, reply: reply) -> Federation:
    people = replace(federation.population(), names=NAMES)
    node = ClientNode(ALGORITHM, federation.task(), people, InProcessMemory())
    return Federation(Tampering(SequentialTransport(node), change), patience=Patience(quorum=0.5))


def test_clients_are_called_by_the_names_their_nodes_told() -> None:
    assert _named().members[2].name == "Hôpital Nord"
    assert _named().members[3].name == ""
    assert (_named().said(2), _named().said(3)) == ("client 'Hôpital Nord' (2)", "client 3")
    assert _plain().names == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": 99}, "client 'Hôpital Nord' (2) answered 'update' of step 99"),
        ({"values": {"weight": -1.0, "metrics": {}}}, "client 'Hôpital Nord' (2) sent weight -1.0"),
        ({"values": {"weight": 1.0}}, "client 'Hôpital Nord' (2) sent an update that is incompl"),
        ({"tensors": {}}, "client 'Hôpital Nord' (2) did not send "),
    ],
    ids=["another step", "bad weight", "incomplete", "no tensors"],
)
def test_what_is_wrong_with_an_answer_is_told_with_the_name(
    change: dict[str, object], words: str
) -> None:
    def tampered(request: Request, reply: Reply) -> Reply:
        is_chosen = request.verb == "update" and reply.client == 2
        return replace(reply, **change) if is_chosen else reply  # type: ignore[arg-type]

    _, records = _run(_named(tampered), rounds=1)
    assert any(words in text for text in (*records[0].refused, *records[0].events)), records


@pytest.mark.parametrize("name", [7, None, "two\nlines", "\u202eright to left", "x" * 201])
def test_a_node_whose_clients_have_impossible_names_is_refused(name: object) -> None:
    def tampered(request: Request, reply: Reply) -> Reply:
        if request.verb != "hello":
            return reply
        members = [[*row[:-1], name] for row in reply.values["members"]]
        return replace(reply, values={**reply.values, "members": members})

    with pytest.raises(ConfigError, match=r"greeting is incomplete.*is no name of at most 200"):
        _named(tampered)


def test_a_name_too_long_or_odd_for_a_message_is_told_shortened() -> None:
    people = replace(federation.population(), names={0: "x" * 300, 1: "two\nlines"})
    reached = federation.sequential(ALGORITHM, federation.task(), people)
    assert reached.names == {0: "x" * 200, 1: "two\\nlines"}


def test_names_change_no_bit_and_no_fingerprint() -> None:
    named, _ = _run(_named())
    plain, _ = _run(_plain())
    assert hash_tensors(named.shared) == hash_tensors(plain.shared)
    people = federation.population()
    assert replace(people, names=NAMES).fingerprint == people.fingerprint
