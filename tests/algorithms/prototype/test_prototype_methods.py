"""What all prototype methods have in common (specification prototype, sections 1.4 to 1.6, 15)."""

from typing import Any

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.kit.model_exchange import MODEL
from fedcord.algorithms.prototype.prototypes import Prototypes
from fedcord.checks.compare import non_finite
from fedcord.checks.global_randomness import global_randomness
from fedcord.core.contract import Env
from fedcord.core.errors import ProtocolError
from fedcord.core.tensors import check_tensors, hash_tensors, num_bytes, prefixed, select
from fedcord.engine.traffic import WEIGHT_BYTES
from fedcord.store.checkpoint import Checkpoint
from tests import federation
from tests.algorithms.prototype import parties

STACKED = LocalSGD(lr=0.1, batch_size=8)
AUTOGRAD = LocalSGD(lr=0.1, batch_size=8, clip=1e9)
DIM, CLASSES = 16, 3
AVERAGED = [name for name in parties.NAMES if name.endswith("+")]


@pytest.mark.parametrize("local", [STACKED, AUTOGRAD], ids=["stacked", "autograd"])
@pytest.mark.parametrize("name", AVERAGED)
def test_15_2_without_its_terms_the_averaged_form_is_fedavg(name: str, local: LocalSGD) -> None:
    off = parties.method(name, local, **parties.OFF[name.removesuffix("+")])
    on = parties.method(name, local)
    found, other, wanted = (
        select(parties.run(each, rounds=3).state.shared, MODEL) for each in (off, on, FedAvg(local))
    )
    assert hash_tensors(found) == hash_tensors(wanted)
    assert hash_tensors(other) != hash_tensors(wanted)


@pytest.mark.parametrize("local", [STACKED, AUTOGRAD], ids=["stacked", "autograd"])
@pytest.mark.parametrize("name", parties.OWN)
def test_15_2_without_its_terms_models_are_trained_alone(name: str, local: LocalSGD) -> None:
    done = parties.run(parties.method(name, local, **parties.OFF[name]), rounds=3)
    people, alone = parties.population(), FedAvg(local)
    for client in range(4):
        env = federation.env()
        shared = alone.init(env).shared
        for round_ in range(3):
            here = Env(env.task, env.seed, round_, 3, client)
            shared = alone.client_update(shared, {}, people.client(client), here).update.tensors
        own = prefixed(MODEL, select(done.reached.gather_memory()[client], MODEL))
        assert hash_tensors(own) == hash_tensors(shared)


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_3_classes_a_client_lacks_are_not_sent(name: str) -> None:
    algorithm = parties.method(name)
    state = algorithm.init(federation.env())
    sent = parties.updates(algorithm, state, parties.population(), range(4))
    for client, update in sent.items():
        counts = parties.SKEWED[client]
        assert (update.tensors["proto.present"] != 0).tolist() == [c > 0 for c in counts]
        assert update.tensors["proto.mean"].shape == (sum(c > 0 for c in counts), DIM)
        assert any(n.startswith("model.") for n in update.tensors) == name.endswith("+")


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_4_nothing_of_the_server_requires_a_gradient(name: str) -> None:
    done = parties.run(parties.method(name), rounds=2)
    tensors = Checkpoint(done.state, done.reached.gather_memory()).tensors()
    assert not [n for n, t in tensors.items() if t.requires_grad]


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_5_odd_clients_leave_everything_finite(name: str) -> None:
    """One empty client, one with one class, one with one example; the empty one is also asked."""
    algorithm, people = parties.method(name), parties.population(parties.ODD)
    done = parties.run(algorithm, people, rounds=3, clients=lambda _: [0, 1, 2])
    assert not non_finite(Checkpoint(done.state, done.reached.gather_memory()).tensors())
    assert all(not r.refused and r.train_loss is not None for r in done.records)
    without = parties.run(algorithm, people, rounds=3, clients=lambda _: [1, 2])
    assert hash_tensors(done.state.model) == hash_tensors(without.state.model)


@pytest.mark.parametrize("name", parties.NAMES)
def test_1_6_a_round_of_empty_clients_keeps_what_there_is(name: str) -> None:
    algorithm, people = parties.method(name), parties.population([(0, 0, 0), (5, 5, 5)])
    done = parties.run(algorithm, people, rounds=2, clients=lambda r: [1] if r == 0 else [0])
    before, after = done.states[1:]
    assert hash_tensors(before.model) == hash_tensors(after.model)


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_6_a_class_of_clients_who_stay_away_keeps_its_value(name: str) -> None:
    """Client 1 alone has class 2 and takes part in the first round only."""
    people = parties.population([(9, 9, 0), (0, 0, 9)])
    algorithm = parties.method(name)
    done = parties.run(algorithm, people, rounds=3, clients=lambda r: [0, 1] if r == 0 else [0])
    known = [algorithm.known(state.model) for state in done.states[1:]]
    assert all(bool(table.held[2]) for table in known)
    if not name.startswith("fedtgp"):  # there one network makes the prototypes of all classes
        assert torch.equal(known[0].values[2], known[2].values[2])
    assert not torch.equal(known[0].values[0], known[2].values[0])
    if algorithm.traits.keeps_own_models:  # who stays away keeps its model
        kept = [
            parties.run(algorithm, people, rounds=r, clients=lambda r: [0, 1] if r == 0 else [0])
            for r in (1, 3)
        ]
        first, last = (hash_tensors(run.reached.gather_memory()[1]) for run in kept)
        assert first == last


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_7_later_training_does_not_change_what_was_sent(name: str) -> None:
    algorithm, people = parties.method(name), parties.population()
    state = algorithm.init(federation.env())
    first = parties.updates(algorithm, state, people, [0])[0]
    before = hash_tensors(first.tensors)
    parties.updates(algorithm, state, people, [1, 2, 3])
    assert hash_tensors(first.tensors) == before


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_8_the_same_seed_gives_the_same_run_and_no_global_chance_is_used(name: str) -> None:
    before = global_randomness()
    runs = [parties.run(parties.method(name), rounds=2) for _ in range(2)]
    assert global_randomness() == before
    hashes = {Checkpoint(run.state, run.reached.gather_memory()).hash for run in runs}
    assert len(hashes) == 1
    assert runs[0].records[-1].evaluation == runs[1].records[-1].evaluation


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_9_the_server_does_not_mind_the_order_of_clients(name: str) -> None:
    algorithm, env = parties.method(name), federation.env()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, parties.population(), range(4))
    states = [
        algorithm.aggregate(state, iter([(k, sent[k]) for k in order]), env)
        for order in ((0, 1, 2, 3), (2, 0, 3, 1))
    ]
    known = [algorithm.known(each.model) for each in states]
    assert torch.equal(known[0].values, known[1].values)


OWNED = sum(count > 0 for client in parties.SKEWED for count in client)


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_10_bytes_of_real_messages(name: str) -> None:
    """Floats are those of the exchange tables; presence or counts cost C or 4 C bytes more."""
    done = parties.run(parties.method(name), rounds=2)
    model = num_bytes(select(done.state.shared, MODEL))
    assert (model > 0) == name.endswith("+")
    if name.startswith("fedgmkd"):  # C_k (d + C) floats up, and counts
        up = 4 * OWNED * (DIM + CLASSES) + 4 * (4 * CLASSES)
        down = 4 * CLASSES * (DIM + CLASSES) + CLASSES
    elif name.startswith("fedsa"):  # C_k d floats up, all C d anchors down from the first round
        up, down = 4 * OWNED * DIM + 4 * CLASSES, 4 * CLASSES * DIM
    else:  # C_k d floats up, C d down once all classes are known
        up, down = 4 * OWNED * DIM + 4 * CLASSES, 4 * CLASSES * DIM + CLASSES
    for record in done.records:
        assert record.bytes_up == up + 4 * (model + WEIGHT_BYTES)
    first = 4 * CLASSES * DIM if name.startswith("fedsa") else CLASSES  # none is known yet
    assert [r.bytes_down for r in done.records] == [4 * (first + model), 4 * (down + model)]


def test_15_10_numbers_of_examples_cost_four_bytes_a_class() -> None:
    plain, counted = (
        parties.run(parties.method("fedproto", weighting=w), rounds=1).records[0].bytes_up
        for w in ("uniform", "samples")
    )
    assert counted - plain == 4 * 3 * CLASSES


@pytest.mark.parametrize("name", parties.NAMES)
def test_15_11_three_gaussian_classes_are_learnt(name: str) -> None:
    """Averaged models from skewed clients; own models where every client has all classes."""
    people = parties.population(parties.SKEWED if name.endswith("+") else [(10, 10, 10)] * 3)
    tuned: dict[str, dict[str, Any]] = {
        "fedtgp": {"server_epochs": 100, "server_lr": 0.02},
        "fedsa": {"anchor_weight": 1.0},
    }
    values = tuned.get(name.removesuffix("+"), {})
    done = parties.run(parties.method(name, **values), people, rounds=20)
    evaluation = done.records[-1].evaluation
    assert evaluation is not None
    assert next(iter(evaluation.rule_accuracy().values())) == evaluation.accuracy
    assert evaluation.accuracy > 0.9


@pytest.mark.parametrize("name", parties.NAMES)
def test_a_never_visited_client_answers_with_what_all_start_from(name: str) -> None:
    algorithm, people = parties.method(name), parties.population()
    done = parties.run(algorithm, people, rounds=1, clients=lambda _: [0, 1])
    env = federation.env().at(3)
    scores = algorithm.predictor(done.state.model, {}, env).scores(people.test.inputs)
    assert scores.shape == (120, 3)
    assert bool(scores.isfinite().all())


@pytest.mark.parametrize("name", parties.OWN)
def test_1_4_all_clients_start_from_the_same_weights(name: str) -> None:
    algorithm, people = parties.method(name, LocalSGD(lr=1e-30)), parties.population()
    done = parties.run(algorithm, people, rounds=1)
    hashes = {hash_tensors(select(m, MODEL)) for m in done.reached.gather_memory().values()}
    drawn = FedAvg().init(federation.env()).shared
    assert hashes == {hash_tensors(select(drawn, MODEL))}


@pytest.mark.parametrize("name", parties.NAMES)
def test_a_table_that_breaks_its_promise_is_refused_by_name(name: str) -> None:
    algorithm, env = parties.method(name), federation.env()
    state = algorithm.init(env)
    sent = parties.updates(algorithm, state, parties.population(), [0])[0]
    expected = algorithm.expected_update(state.shared, env.at(0))
    check_tensors(sent.tensors, expected, "client 0")
    more = {**sent.tensors, "proto.mean": torch.ones(3, DIM)}
    with pytest.raises(ProtocolError, match=r"client 0 sent proto.mean as float32\[3, 16\]"):
        check_tensors(more, expected, "client 0")
    assert Prototypes.of(sent.tensors).values.shape == (CLASSES, DIM)
