"""The student: taught by what accord says of clients' samples, averaged as FedAvg does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.accord.student import AccordStudent
from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.core.contract import Env, ServerState
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.params import build
from fedcord.core.tensors import num_bytes, select
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests.algorithms.accord.encoders import MIXED, SHORT, method, run
from tests.algorithms.accord.test_accord_messages import C, K
from tests.federation import VECTOR, population, sequential, task

SIZES = (40, 25, 12, 60)
LOCAL = {"lr": 0.1, "batch_size": 16}
BEFORE = 3
"""Rounds of the teacher."""


def student(teacher: dict[str, Any] | None = None, **values: Any) -> AccordStudent:
    parts = {"teacher": {**SHORT, **(teacher or {})}, "local": LOCAL}
    return build(AccordStudent, {**parts, "student": {"rounds": 2, **values}})


def trained(
    algorithm: Any, rounds: int, values: dict[str, object] = VECTOR, secure: float | None = None
) -> tuple[list[ServerState], list[RoundRecord]]:
    here = task(values)
    env = Env(here, 0, num_rounds=rounds)
    states, records = [algorithm.init(env)], []

    def note(state: ServerState, record: RoundRecord) -> None:
        states.append(state)
        records.append(record)

    people = sequential(algorithm, here, population(values, SIZES))
    schedule = Schedule(rounds, lambda _: range(len(SIZES)), secure=secure)
    run_rounds(algorithm, people, env, states[0], schedule, note)
    return states, records


def by_hand(algorithm: AccordStudent, until: int) -> tuple[ServerState, dict[int, Any], Any]:
    """State, memories and data of clients after some rounds."""
    people = population(VECTOR, SIZES)
    datas = {k: people.client(k) for k in range(len(SIZES))}
    env = Env(task(), 0, num_rounds=algorithm.traits.rounds or 0)
    state = algorithm.init(env)
    memories: dict[int, Any] = {k: {} for k in datas}
    for number in range(until):
        here = replace(env, round=number)
        done = {
            k: algorithm.client_update(state.shared, memories[k], data, here.at(k))
            for k, data in datas.items()
        }
        state = algorithm.aggregate(state, iter((k, r.update) for k, r in done.items()), here)
        memories = {k: result.memory for k, result in done.items()}
    return state, memories, datas


@pytest.mark.parametrize("solve", [{}, {"by": "gradients", "exchanges": 3}])
def test_the_teacher_is_accord_and_clients_keep_what_it_says_of_their_samples(
    solve: dict[str, Any],
) -> None:
    algorithm = student({"solve": solve})
    before = len(algorithm.teacher.phases)
    state, memories, datas = by_hand(algorithm, before + 1)
    teacher = method(solve=solve)
    end = run(teacher, sizes=SIZES)[0][-1]
    env = Env(task(), 0, before, algorithm.traits.rounds or 0)
    for k, data in datas.items():
        assert set(memories[k]) == {"answers"}
        inputs = env.task.prepare(data.train.inputs)
        wanted = teacher.predictor(end.model, {}, env.at(k)).scores(inputs)
        assert torch.allclose(memories[k]["answers"].double(), wanted, atol=1e-6)
    assert set(state.shared) == {
        f"model.{name}" for name in env.task.scratch_network().state_dict()
    }


def test_a_step_goes_down_the_squared_error_to_the_teacher() -> None:
    """One step over a client's whole data, against autograd written out."""
    algorithm = build(
        AccordStudent,
        {
            "teacher": SHORT,
            "student": {"rounds": 2, "weight": 0.7},
            "local": {"lr": 0.1, "batch_size": 64},
        },
    )
    state, memories, datas = by_hand(algorithm, BEFORE + 1)
    env = Env(task(), 0, BEFORE + 1, algorithm.traits.rounds or 0)
    data = datas[1].train
    network = env.task.network_with(select(state.shared, "model"))
    own = network(env.task.prepare(data.inputs))
    squared = (own - memories[1]["answers"]).square().sum(dim=1).mean()
    loss = 0.7 * squared + 0.3 * F.cross_entropy(own, data.labels)
    names = [name for name, _ in network.named_parameters()]
    slopes = torch.autograd.grad(loss, list(network.parameters()))
    wanted = {
        name: state.shared[f"model.{name}"] - 0.1 * slope
        for name, slope in zip(names, slopes, strict=True)
    }
    done = algorithm.client_update(state.shared, memories[1], datas[1], env.at(1))
    for name, tensor in wanted.items():
        assert torch.allclose(done.update.tensors[f"model.{name}"], tensor, atol=1e-6)
    assert done.update.metrics["train_loss"] == pytest.approx(float(loss.detach()), rel=1e-5)


@pytest.mark.parametrize("free", [0, 2])
def test_without_weight_its_rounds_are_fedavg_in_every_bit(free: int) -> None:
    fedavg = build(FedAvg, {"local": {**LOCAL, "schedule": "cosine"}})
    algorithm = replace(student(weight=0.0, free_rounds=free), local=fedavg.local)
    found, records = trained(algorithm, BEFORE + 2 + free)
    wanted, theirs = trained(fedavg, 2 + free)
    assert not any(by_hand(algorithm, BEFORE)[1].values())  # nothing is kept for a lesson
    for ours, other in zip(found[BEFORE:], wanted, strict=True):
        assert set(ours.shared) == set(other.shared)
        for name, tensor in other.shared.items():
            assert torch.equal(ours.shared[name], tensor)
    assert [r.bytes_down for r in records[BEFORE:]] == [r.bytes_down for r in theirs]
    taught, _ = trained(student(rounds=2), BEFORE + 2)
    assert not torch.equal(
        taught[-1].shared["model.linear_layers.0.weight"],
        found[BEFORE + 2].shared["model.linear_layers.0.weight"],
    )


def test_rounds_after_the_teacher_are_fedavg_from_the_student_on() -> None:
    algorithm = student(rounds=1, free_rounds=1)
    state, memories, datas = by_hand(algorithm, BEFORE + 1)
    env = Env(task(), 0, BEFORE + 1, BEFORE + 2)
    place = replace(env, round=1, num_rounds=2)
    for k, data in datas.items():
        done = algorithm.client_update(state.shared, memories[k], data, env.at(k))
        wanted = FedAvg(algorithm.local).client_update(state.shared, {}, data, place.at(k))
        assert done.memory == {}
        for name, tensor in wanted.update.tensors.items():
            assert torch.equal(done.update.tensors[name], tensor)


def test_the_head_is_sent_once_and_encoders_never_again() -> None:
    states, records = trained(student(rounds=3), BEFORE + 3)
    _, accord = run(method(), sizes=SIZES)
    model = num_bytes(select(states[-1].shared, "model"))
    width = 16 * K + 1
    head = 8 * width * C + C
    assert [(r.bytes_up, r.bytes_down) for r in records[:BEFORE]] == [
        (r.bytes_up, r.bytes_down) for r in accord
    ]
    assert [r.bytes_down for r in records[BEFORE:]] == [K * (model + head), K * model, K * model]
    assert [r.bytes_up for r in records[BEFORE:]] == [K * (model + 8)] * 3


def test_predictions_are_the_teachers_until_there_is_a_student_and_then_its_alone() -> None:
    algorithm = student()
    states, records = trained(algorithm, BEFORE + 2)
    accord = run(method(), sizes=SIZES)[0][-1]
    env = Env(task(), 0, BEFORE, BEFORE + 2)
    inputs = env.task.prepare(population().test.inputs)
    at_first = algorithm.predictor(states[BEFORE].model, {}, env).scores(inputs)
    assert torch.equal(at_first, method().predictor(accord.model, {}, env).scores(inputs))
    end = states[-1]
    assert {name.split(".")[0] for name in end.model} == {"model"}
    network = env.task.network_with(select(end.model, "model"))
    found = algorithm.predictor(end.model, {}, env).scores(inputs)
    assert torch.allclose(found, network(inputs), atol=1e-6)
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.8


def test_views_ask_the_teacher_about_what_the_student_sees() -> None:
    """Samples that are not changed are seen as they are, so both ways teach the same."""
    stored, _ = trained(student(), BEFORE + 2)
    views, _ = trained(student(teach="views"), BEFORE + 2)
    for name, tensor in stored[-1].shared.items():
        assert torch.allclose(views[-1].shared[name], tensor, atol=1e-5)
    _, memories, _ = by_hand(student(teach="views"), BEFORE + 1)
    assert {name.split(".")[1] for name in memories[0]} == {"chosen", "encoder", "head"}


def test_a_client_that_missed_the_teacher_learns_from_codes_of_labels() -> None:
    algorithm = student(weight=1.0)
    state, _, datas = by_hand(algorithm, BEFORE + 1)
    env = Env(task(), 0, BEFORE + 1, BEFORE + 2)
    encoders = {"teacher.chosen": torch.tensor([0])}  # but the round of the head was missed
    codes = {"answers": F.one_hot(datas[1].train.labels, C).float()}
    ends = [
        algorithm.client_update(state.shared, memory, datas[1], env.at(1))
        for memory in (codes, {}, encoders)
    ]
    for end in ends[1:]:
        assert end.memory == {}
        for name, tensor in ends[0].update.tensors.items():
            assert torch.equal(end.update.tensors[name], tensor)


def test_encoders_from_before_a_refinement_teach_nobody() -> None:
    """A client that was away when the refined ones were summed has no answers of a mixture."""
    algorithm = student({"refinements": 1, "refine": {"epochs": 1, "lr": 0.1}})
    before = len(algorithm.teacher.phases)
    state, memories, datas = by_hand(algorithm, before - 1)
    env = Env(task(), 0, before - 1, algorithm.traits.rounds or 0)
    sent = []
    for k in (0, 2, 3):
        done = algorithm.client_update(state.shared, memories[k], datas[k], env.at(k))
        memories[k] = done.memory
        sent.append((k, done.update))
    state = algorithm.aggregate(state, iter(sent), env)
    env = replace(env, round=before)
    kept = {
        k: algorithm.client_update(state.shared, memories[k], datas[k], env.at(k)).memory
        for k in datas
    }
    assert [set(kept[k]) for k in datas] == [{"answers"}, set(), {"answers"}, {"answers"}]
    for k in (0, 2, 3):
        inputs = env.task.prepare(datas[k].train.inputs)
        wanted = algorithm.teacher.predictor(state.model, {}, env.at(k)).scores(inputs)
        assert torch.allclose(kept[k]["answers"].double(), wanted, atol=1e-6)


def test_a_teacher_without_a_head_is_an_error_in_words() -> None:
    algorithm = student({"solve": {"by": "gradients", "exchanges": 1}})
    before = len(algorithm.teacher.phases)
    state, memories, datas = by_hand(algorithm, before - 1)
    env = Env(task(), 0, before - 1, algorithm.traits.rounds or 0)
    sent = [
        (k, algorithm.client_update(state.shared, memories[k], datas[k], env.at(k)).update)
        for k in (0, 1)
    ]
    with pytest.raises(ProtocolError, match=r"found no head: in none of its 1 exchanges"):
        algorithm.aggregate(state, iter(sent), env)


def test_a_teacher_that_is_not_solved_to_the_end_is_noted() -> None:
    for residual, noted in ((1e-9, 1), (0.5, 0)):
        solve = {"by": "gradients", "exchanges": 2, "residual": residual}
        algorithm = student({"solve": solve})
        states, records = trained(algorithm, algorithm.traits.rounds or 0)
        assert len(records[-1].notes) == noted
        assert len(states[-1].private) == 2 * noted  # nothing else is kept


def test_it_can_start_from_the_encoder_of_the_largest_client() -> None:
    algorithm = student(start="largest")
    states, _ = trained(algorithm, BEFORE + 1)
    seed = trained(student(), BEFORE + 1)[0][BEFORE].shared
    first = states[BEFORE]
    encoder = select(first.result, "encoder.3")  # 60 samples
    assert encoder
    for name, tensor in encoder.items():
        assert torch.equal(first.shared[f"model.{name}"], tensor)
    drawn = {name for name, tensor in seed.items() if torch.equal(first.shared[name], tensor)}
    assert drawn == {"model.linear_layers.1.weight", "model.linear_layers.1.bias"} | {
        "head.seen",
        "head.weight",
    }


def test_encoders_may_differ_and_the_student_is_of_the_servers_kind() -> None:
    states, records = trained(student(), BEFORE + 2, MIXED)
    assert states[-1].shared["model.linear_layers.0.weight"].shape == (6, 8)
    assert all(record.refused == () for record in records)


def test_views_ask_a_teacher_whose_encoders_differ() -> None:
    """Each of its own network, though the student's rounds know the server's alone."""
    stored, _ = trained(student(), BEFORE + 2, MIXED)
    views, _ = trained(student(teach="views"), BEFORE + 2, MIXED)
    for name, tensor in stored[-1].shared.items():
        assert torch.allclose(views[-1].shared[name], tensor, atol=1e-5)


def test_rounds_are_masked_where_sums_or_means_are_enough() -> None:
    _, records = trained(student(), BEFORE + 2, secure=0.6)
    masked = ["unmasking" in record.traffic for record in records]
    assert masked == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        ({"personal": True}, "teacher.personal: predictions are the student's"),
        ({"privacy": {"epsilon": 1.0}}, "trained on clients' samples without noise"),
    ],
)
def test_what_a_student_cannot_keep_is_refused(teacher: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        student(teacher)
