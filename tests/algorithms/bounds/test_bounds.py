"""The ceiling and the floor: what they train on, what they cost, what they are for one client."""

from __future__ import annotations

import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.bounds.centralised import Centralised
from fedcord.algorithms.bounds.local import Local
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import cross_entropy
from fedcord.algorithms.prototype.fedproto import FedProto
from fedcord.core.contract import Algorithm, ServerState
from fedcord.core.examples import ClientData, Examples
from fedcord.core.tensors import Tensors, hash_tensors, prefixed, select
from fedcord.engine.population import Population
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests import federation

LOCAL = LocalSGD(epochs=2, batch_size=8, clip=1e9)


def outcome(
    algorithm: Algorithm, people: Population, who: list[list[int]]
) -> tuple[ServerState, list[RoundRecord], dict[int, Tensors]]:
    """After a round with each group of clients."""
    env, records = federation.env(rounds=len(who)), list[RoundRecord]()
    reached = federation.sequential(algorithm, env.task, people)
    schedule = Schedule(len(who), lambda round_: who[round_])
    state = run_rounds(
        algorithm,
        reached,
        env,
        algorithm.init(env),
        schedule,
        on_round=lambda _, record: records.append(record),
    )
    return state, records, reached.gather_memory()


def test_centralised_is_plain_training_on_everybodys_examples() -> None:
    people = federation.population()
    state, _, _ = outcome(Centralised(LOCAL), people, [[0, 1, 2, 3]] * 2)
    parts = [people.client(k).train for k in range(4)]
    rows = [
        (part.inputs[i], label)
        for part in parts
        for label in range(3)
        for i in range(len(part))
        if part.labels[i] == label
    ]
    everything = Examples(
        torch.stack([row for row, _ in rows]), torch.tensor([label for _, label in rows])
    )
    env = federation.env(rounds=2)
    network = env.task.initial_network(env.generator("init"))
    for round_ in range(2):
        here = type(env)(env.task, env.seed, round_, 2)
        LOCAL.train(network, everything, cross_entropy, here)
    assert hash_tensors(select(state.model, "model")) == hash_tensors(network.state_dict())


def test_examples_travel_once_and_are_counted_as_they_are() -> None:
    people = federation.population()
    state, records, _ = outcome(Centralised(LOCAL), people, [[0, 1], [0, 1, 3], [0, 1, 3]])
    counts = 3 * 8 + 8  # a count per class, and the number of examples
    assert records[0].bytes_up == (40 + 25) * 8 * 4 + 2 * counts
    assert records[1].bytes_up == 60 * 8 * 4 + 3 * counts
    assert records[2].bytes_up == 3 * counts
    assert [record.bytes_down for record in records] == [0, 3 * 2 * 8, 3 * 3 * 8]  # no model
    assert state.shared["gathered"].tolist() == [0, 1, 3]


def test_what_a_client_sends_again_is_not_counted_twice() -> None:
    """Asked again after an answer that was lost, or by a client that does not keep to the rules."""
    people, env = federation.population(), federation.env()
    method = Centralised(LOCAL)
    state = method.init(env)
    update = method.client_update(state.shared, {}, people.client(0), env.at(0)).update
    once = method.aggregate(state, iter([(0, update)]), env)
    twice = method.aggregate(once, iter([(0, update)]), env)
    assert twice.private.keys() == once.private.keys()
    assert len(twice.private["0.inputs"]) == 40


def test_local_is_every_client_by_itself() -> None:
    people = federation.population()
    _, records, memories = outcome(Local(LOCAL), people, [[0, 1, 2, 3]] * 2)
    for k in (0, 1, 3):
        alone = Population.from_clients([_nobody()] * k + [people.client(k)], people.test)
        state, _, _ = outcome(FedAvg(LOCAL), alone, [[k]] * 2)
        assert hash_tensors(memories[k]) == hash_tensors(state.shared)
    assert [(record.bytes_up, record.bytes_down) for record in records] == [(4 * 8, 0)] * 2
    assert records[-1].own_models == 4


def test_a_method_without_its_exchange_is_local() -> None:
    people = federation.population()
    _, _, alone = outcome(Local(LOCAL), people, [[0, 1, 2, 3]] * 2)
    _, _, kept = outcome(FedProto(prototype_weight=0.0, local=LOCAL), people, [[0, 1, 2, 3]] * 2)
    for k, memory in alone.items():
        own = prefixed("model", select(kept[k], "model"))
        assert hash_tensors(memory) == hash_tensors(own)


def _nobody() -> ClientData:
    nothing = federation.examples(0, 0)
    return ClientData(nothing, nothing, nothing)
