from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.checks.faulty_transport import Tampering
from fedcord.core.contract import ServerState, Update
from fedcord.core.errors import ConfigError, DataError, NumericalError
from fedcord.core.examples import ClientData
from fedcord.core.tensors import hash_tensors, num_bytes
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.population import Population
from fedcord.engine.requests import Reply, Request
from fedcord.engine.rounds import (
    RoundRecord,
    Schedule,
    finish_clients,
    run_rounds,
    validate_clients,
)
from fedcord.engine.sampling import sample_clients
from fedcord.engine.transports.sequential import SequentialTransport
from tests import federation

ALGORITHM = FedAvg(LocalSGD(lr=0.1))


def _corrupting(bad: dict[int, Update]) -> Federation:
    """Clients of one node, some of which send something else."""

    def change(request: Request, reply: Reply) -> Reply:
        if request.verb != "update" or reply.client not in bad:
            return reply
        sent = bad[reply.client]
        return replace(reply, tensors=sent.tensors, values={"weight": sent.weight, "metrics": {}})

    people = federation.population()
    lives = ClientNode(ALGORITHM, federation.task(), people, InProcessMemory())
    return Federation(Tampering(SequentialTransport(lives), change))


def _run(
    reached: Federation, rounds: int = 3, clients: Sequence[int] = (0, 1, 2, 3)
) -> tuple[ServerState, list[RoundRecord]]:
    env, records = federation.env(rounds=rounds), []
    state = ALGORITHM.init(env)
    state = run_rounds(
        ALGORITHM,
        reached,
        env,
        state,
        Schedule(rounds, lambda _: clients),
        lambda state, record: records.append(record),
    )
    return state, records


def _sequential() -> Federation:
    return federation.sequential(ALGORITHM, federation.task(), federation.population())


def test_it_learns_and_counts_what_travels() -> None:
    state, records = _run(_sequential(), rounds=5)
    assert [r.round for r in records] == [1, 2, 3, 4, 5]
    first, last = records[0].evaluation, records[-1].evaluation
    assert first is not None
    assert last is not None
    assert last.accuracy > 0.9
    assert last.loss < first.loss
    size = num_bytes(state.shared)
    assert all(r.bytes_down == 4 * size and r.bytes_up == 4 * (size + 8) for r in records)
    assert records[-1].train_loss is not None


def _model(change: float | None = None) -> dict[str, torch.Tensor]:
    shared = dict(ALGORITHM.init(federation.env()).shared)
    name = "model.linear_layers.0.weight"
    shared[name] = shared[name].clone()
    if change is not None:
        shared[name][0, 0] = change
    return shared


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Update(_model(float("nan")), 5.0), "client 1 sent model.linear_layers.0.weight"),
        (Update({}, 5.0), "client 1 did not send"),
        (Update(_model(), float("nan")), "client 1 sent weight nan"),
        (Update(_model(), -1.0), "client 1 sent weight -1"),
    ],
    ids=["nan", "missing", "nan-weight", "negative-weight"],
)
def test_a_bad_update_is_refused_by_name_and_the_round_goes_on(answer: Update, words: str) -> None:
    state, records = _run(_corrupting({1: answer}))
    assert all(len(r.refused) == 1 and words in r.refused[0] for r in records)
    without, _ = _run(_sequential(), clients=(0, 2, 3))
    assert hash_tensors(state.shared) == hash_tensors(without.shared)


def test_when_all_are_bad_the_run_stops_and_says_why() -> None:
    bad: dict[int, Update] = {k: Update(_model(float("inf")), 1.0) for k in range(4)}
    with pytest.raises(NumericalError, match=r"round 1: all 4 updates were refused.*client 0 sent"):
        _run(_corrupting(bad))


def test_a_client_that_diverges_is_refused_not_the_run() -> None:
    """One client's loss overflows inside a stack; the others are trained one by one."""
    algorithm = FedAvg(LocalSGD(lr=0.1))
    people = federation.population()
    people.inputs[: people.train_sizes[0]] *= 1e30
    reached = federation.sequential(algorithm, federation.task(), people)
    records: list[RoundRecord] = []
    env = federation.env()
    run_rounds(
        algorithm,
        reached,
        env,
        algorithm.init(env),
        Schedule(1, lambda _: [0, 1, 3]),
        lambda state, record: records.append(record),
    )
    assert len(records[0].refused) == 1
    assert "client 0" in records[0].refused[0]


def test_going_on_equals_going_through() -> None:
    env = federation.env(rounds=4)
    through, _ = _run(_sequential(), rounds=4)
    state = ALGORITHM.init(env)
    stops: list[ServerState] = []
    run_rounds(
        ALGORITHM,
        _sequential(),
        env,
        state,
        Schedule(4, lambda _: [0, 1, 2, 3]),
        lambda state, record: stops.append(state),
    )
    resumed = run_rounds(
        ALGORITHM, _sequential(), env, stops[1], Schedule(4, lambda _: [0, 1, 2, 3])
    )
    assert hash_tensors(resumed.shared) == hash_tensors(through.shared)
    assert resumed.round == 4


def test_evaluation_happens_as_often_as_asked_and_last() -> None:
    records: list[RoundRecord] = []
    env = federation.env(rounds=5)
    run_rounds(
        ALGORITHM,
        _sequential(),
        env,
        ALGORITHM.init(env),
        Schedule(5, lambda _: [0, 1], evaluate_every=2),
        lambda state, record: records.append(record),
    )
    assert [r.evaluation is not None for r in records] == [False, True, False, True, True]


def test_clients_are_tested_on_their_own_part() -> None:
    reached = _sequential()
    state, _ = _run(reached, rounds=5)
    found = finish_clients(ALGORITHM, reached, state, 0, [0, 1, 2, 3])
    assert {k: e.total for k, e in found.items()} == {0: 10, 1: 6, 3: 15}  # client 2 has no test
    assert all(e.accuracy > 0.6 for e in found.values())


def test_sampling_depends_on_seed_and_round_only() -> None:
    eligible = [1, 3, 5, 7, 9, 11]
    draws = {r: sample_clients(0, r, eligible, 3) for r in range(20)}
    assert all(
        len(set(d)) == 3 and d == sorted(d) and set(d) <= set(eligible) for d in draws.values()
    )
    assert len({tuple(d) for d in draws.values()}) > 5
    assert sample_clients(0, 4, eligible, 3) == draws[4]
    assert any(sample_clients(1, r, eligible, 3) != draws[r] for r in range(20))
    with pytest.raises(DataError, match="no client holds training examples"):
        sample_clients(0, 0, [], 1)
    assert sample_clients(0, 0, eligible, 6) == eligible
    with pytest.raises(ConfigError, match="cannot sample 7 clients; 6 of them hold data"):
        sample_clients(0, 0, eligible, 7)


def test_validation_takes_all_clients_parts_together() -> None:
    nothing = federation.examples(0, 0)
    parts = [federation.examples(size, 70 + size) for size in (5, 9, 0)]
    clients = [
        ClientData(federation.examples(20, k), part, nothing) for k, part in enumerate(parts)
    ]
    people = Population.from_clients(clients, federation.examples(30, 1000))
    reached = federation.sequential(ALGORITHM, federation.task(), people)
    state, _ = _run(reached, rounds=5, clients=(0, 1, 2))
    found = validate_clients(reached, state, 0, [0, 1, 2])
    correct = 0
    for part in parts[:2]:
        inputs = federation.task().prepare(part.inputs)
        scores = ALGORITHM.predictor(state.shared, {}, federation.env()).scores(inputs)
        correct += int((scores.argmax(1) == part.labels).sum())
    assert (found.correct, found.total) == (correct, 14)
