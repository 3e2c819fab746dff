"""What travels: bytes by formula, phases in order, networks of any kind, work shared with FAFI."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedcord.checks.faulty_transport import Tampering
from fedcord.core.contract import Env
from fedcord.core.errors import ProtocolError
from fedcord.core.task import Task
from fedcord.engine import node
from fedcord.engine.federation import Federation
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import ClientNode
from fedcord.engine.requests import Reply, Request
from fedcord.engine.rounds import Schedule, run_rounds
from fedcord.engine.transports.sequential import SequentialTransport
from fedcord.engine.visits import check_update, do_visits
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place
from fedcord.experiment.run import run as run_experiment
from tests.algorithms.accord.encoders import MIXED, at_sums, method, run, with_encoders
from tests.federation import IMAGE, VECTOR, examples, population, sequential, task

K, C, WEIGHT = 4, 3, 8


def encoder_bytes(here: Task, client: int, form: str) -> int:
    """By hand: 4, 2 or 1 bytes a weight, with 4 for every row of an int8 matrix."""
    total = 0
    network: Any = here.scratch_network(client)
    head = {tensor.data_ptr() for tensor in network.head.state_dict().values()}
    for tensor in network.state_dict().values():
        if tensor.data_ptr() in head:
            continue
        count = tensor.numel()
        if tensor.dtype != torch.float32:
            total += count * tensor.element_size()
        elif form == "int8":
            total += count + 4 * tensor.shape[0] if tensor.ndim > 1 else 4 * count
        else:
            total += count * {"float32": 4, "float16": 2}[form]
    return total


@pytest.mark.parametrize(
    ("values", "form"),
    [(VECTOR, "float32"), (VECTOR, "int8"), (IMAGE, "int8"), (MIXED, "float16"), (MIXED, "int8")],
    ids=["mlp-float32", "mlp-int8", "resnet-int8", "mixed-float16", "mixed-int8"],
)
def test_bytes_of_every_phase_follow_the_formulas(values: Any, form: str) -> None:
    accord = method(
        encoder_format=form,
        refinements=1,
        refine={"epochs": 1},
        selection={"max_encoders": 2},
        local={"epochs": 1, "batch_size": 32},
    )
    states, records = run(accord, values, sizes=(14, 25, 12, 30))
    here = task(values)
    chosen = states[-1].shared["chosen"].tolist()
    assert chosen == [1, 3]
    networks: dict[int, Any] = {k: here.scratch_network(k) for k in chosen}
    widths = {k: int(network.feature_dim) for k, network in networks.items()}
    encoders = sum(encoder_bytes(here, k, form) for k in chosen)
    width = sum(widths.values()) + 1
    prototypes = sum(4 * C * d + 4 * C for d in widths.values())
    sums = 8 * width * (width + 1) // 2 + 8 * width * C + 8 * C + 8 + 8
    names = 8 * len(chosen)
    head = 8 * width * C + C + 8
    up = [K * 4 * C, encoders + prototypes, K * sums, encoders, K * sums]
    down = [0, K * names, K * (names + encoders), K * (names + encoders + head)]
    down.append(K * (names + encoders))
    assert [record.bytes_up for record in records] == [part + K * WEIGHT for part in up]
    assert [record.bytes_down for record in records] == down
    assert all(record.refused == () for record in records)


def test_bytes_with_balance_and_float32_sums_and_without_roll_call() -> None:
    accord = method(balanced=True, wire="packed32", ridge=1.0, selection={"rule": "all"})
    _, records = run(accord)
    here = task()
    encoders = sum(encoder_bytes(here, k, "float32") for k in range(K))
    width = 16 * K + 1
    sums = 4 * width * (width + 1) // 2 + 4 * width * C + 8 * C + 4 + 8
    assert [r.bytes_up for r in records] == [
        encoders + K * (4 * C * 16 + 4 * C + WEIGHT),
        K * (sums + WEIGHT),
    ]
    assert [r.bytes_down for r in records] == [0, K * (8 * K + 8 * C + encoders)]


def test_rounds_are_as_many_as_phases() -> None:
    assert method().traits.rounds == 3
    assert method(selection={"rule": "cka"}).traits.rounds == 2
    assert method(refinements=2).traits.rounds == 7


@pytest.mark.parametrize(
    ("number", "kept", "missing"),
    [
        (1, (), "round 2 of accord is for encoders, but who was chosen has not been sent"),
        (2, (), "round 3 of accord is for sums, but who was chosen has not been sent"),
        (2, ("chosen",), "the encoders of clients 0, 2 have not been sent"),
        (2, ("chosen", "encoder.0"), "the encoders of clients 2 have not been sent"),
        (3, ("chosen", "encoder"), "is for encoders again, but the head has not been sent"),
        (5, ("chosen", "encoder"), "has 5 rounds .* asked for number 6"),
    ],
)
def test_a_client_asked_out_of_phase_refuses(number: Any, kept: Any, missing: Any) -> None:
    accord = method(refinements=1)
    env = Env(task(), 0, number, 5)
    state = with_encoders(accord, env, [0, 2])
    shared = {n: t for n, t in state.shared.items() if n.startswith(kept or ("nothing",))}
    data = population().client(0)
    with pytest.raises(ProtocolError, match=missing):
        accord.client_update(shared, {}, data, env.at(0))
    with pytest.raises(ProtocolError, match=missing):
        accord.aggregate(replace(state, shared=shared), iter([]), env)


def test_tensors_of_another_phase_are_refused_on_arrival_and_the_run_goes_on() -> Any:
    accord = method()
    here = task()
    people = population(sizes=(40, 25, 12, 60))

    def out_of_step(request: Request, reply: Reply) -> Reply:
        wrong = reply.client == 1 and request.verb == "update" and request.round == 2
        return replace(reply, tensors={"proto.count": torch.zeros(C)}) if wrong else reply

    lives = ClientNode(accord, here, people, InProcessMemory())
    spoiled = Federation(Tampering(SequentialTransport(lives), out_of_step))
    records = []
    env = Env(here, 0, num_rounds=3)
    state = run_rounds(
        accord,
        spoiled,
        env,
        accord.init(env),
        Schedule(3, lambda _: range(4)),
        lambda state, record: records.append(record),
    )
    assert [len(record.refused) for record in records] == [0, 0, 1]
    assert "client 1 did not send stats.class_count" in records[-1].refused[0]
    assert state.private["ledger.client"].tolist() == [0, 2, 3]


def fewer_than_none(reply: Reply) -> dict[str, Any]:
    """A client's sums that take away a class from everybody, their checksum made to fit."""
    count = reply.tensors["stats.class_count"].clone()
    tag = reply.tensors["stats.tag_sum"] // count.sum()
    count[0] -= 10**6
    return {"stats.class_count": count, "stats.tag_sum": tag * count.sum()}


@pytest.mark.parametrize(
    ("number", "more", "lie", "words"),
    [
        (0, {}, lambda r: {"proto.count": -r.tensors["proto.count"]}, "proto.count with -"),
        (
            0,
            {"balanced": True},
            lambda r: {"proto.count": r.tensors["proto.count"] + 1e30},
            "proto.count that adds up to .*, but weight 25",
        ),
        (
            1,
            {"selection": {"rule": "cka"}},
            lambda r: {"proto.count": r.tensors["proto.count"] / 2 + 0.25},
            "proto.count with .*, which counts nothing",
        ),
        (2, {}, fewer_than_none, "stats.class_count with -"),
        (2, {"wire": "fixed64"}, fewer_than_none, "stats.class_count with -"),
        (2, {"wire": "packed32", "ridge": 1.0}, fewer_than_none, "stats.class_count with -"),
        (
            2,
            {},
            lambda r: {"stats.target_square": -r.tensors["stats.target_square"]},
            "stats.target_square with -25; expected 0 or more",
        ),
    ],
)
def test_one_clients_impossible_counts_are_refused_by_name_and_the_run_goes_on(
    number: int, more: dict[str, Any], lie: Any, words: str
) -> None:
    accord = method(**more)
    number -= not accord.selection.asks_first

    def lying(request: Request, reply: Reply) -> Reply:
        if (request.verb, request.round, reply.client) != ("update", number, 1):
            return reply
        return replace(reply, tensors={**reply.tensors, **lie(reply)})

    here, rounds = task(), accord.traits.rounds
    assert rounds is not None
    lives = ClientNode(accord, here, population(sizes=(40, 25, 12, 60)), InProcessMemory())
    env, records = Env(here, 0, num_rounds=rounds), []
    run_rounds(
        accord,
        Federation(Tampering(SequentialTransport(lives), lying)),
        env,
        accord.init(env),
        Schedule(rounds, lambda _: range(4)),
        lambda state, record: records.append(record),
    )
    (reason,) = records[number].refused
    assert re.match(f"client 1 sent {words}", reason)
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.9  # of a class nobody is said to have, none is right


@pytest.mark.parametrize("name", ["class_count", "target_square", "trace"])
def test_moments_for_gradients_are_checked_like_sums(name: str) -> None:
    accord = method(solve={"by": "gradients"})
    env = Env(task(), 0, 2, accord.traits.rounds or 0).at(1)
    shared = with_encoders(accord, env, [0, 2]).shared
    update = accord.client_update(shared, {}, population().client(1), env).update
    agreed = accord.expected_update(shared, env)
    check_update(update, agreed, "client 1")
    below = {**update.tensors, f"stats.{name}": -update.tensors[f"stats.{name}"]}
    with pytest.raises(ProtocolError, match=f"client 1 sent stats.{name} with -"):
        check_update(replace(update, tensors=below), agreed, "client 1")


def test_a_client_that_was_not_chosen_may_not_send_an_encoder() -> None:
    accord = method(selection={"max_encoders": 1})
    env = Env(task(), 0, 1, 3)
    shared = {"chosen": torch.tensor([3])}
    assert accord.expected_update(shared, env.at(0)) == {}
    assert accord.client_update(shared, {}, population().client(0), env.at(0)).update.tensors == {}
    assert "model.linear_layers.0.weight" in accord.expected_update(shared, env.at(3))


def test_encoders_that_do_not_arrive_are_left_out_and_none_at_all_is_an_error() -> None:
    accord = method()
    env = Env(task(), 0, 1, 3)
    shared = {"chosen": torch.tensor([0, 1, 3])}
    state = replace(accord.init(env), shared=shared, round=1)
    people = population()
    arrived = [
        (k, accord.client_update(shared, {}, people.client(k), env.at(k)).update) for k in (0, 2, 3)
    ]
    after = accord.aggregate(state, iter(arrived), env)
    assert after.shared["chosen"].tolist() == [0, 3]
    assert float(after.private["metric.encoders"]) == 2
    assert {name.split(".")[1] for name in after.shared if "." in name} == {"0", "3"}
    who_was_asked = r"no client sent an encoder; .* clients 0, 1, 3, and none of them was there"
    with pytest.raises(ProtocolError, match=who_was_asked):
        accord.aggregate(state, iter(arrived[1:2]), env)
    with pytest.raises(ProtocolError, match="no client has examples"):
        accord.aggregate(state, iter([]), env)


def test_a_refinement_without_any_chosen_client_leaves_encoders_as_they_were() -> None:
    accord = method(refinements=1, selection={"max_encoders": 1}, ridge=0.5)
    here, people = task(), population(sizes=(40, 25, 12, 60))
    env = Env(here, 0, num_rounds=5)
    states = [accord.init(env)]

    def participants(round_: int) -> list[int]:
        return [0, 1, 2] if round_ == 3 else [0, 1, 2, 3]  # the chosen is client 3

    run_rounds(
        accord,
        sequential(accord, here, people),
        env,
        states[0],
        Schedule(5, participants),
        lambda state, record: states.append(state),
    )
    first, waiting, again = states[3:]
    assert waiting.shared.keys() == {n for n in first.shared if not n.startswith("head.")}
    for name, tensor in waiting.shared.items():
        assert torch.equal(tensor, first.shared[name])
    assert torch.equal(again.result["head.weight"], first.result["head.weight"])


def test_networks_of_any_kind_work_together_and_their_columns_follow_each_other() -> None:
    accord = method(ridge=0.5)
    states, records = run(accord, MIXED)
    assert all(record.refused == () for record in records)
    shared, env = states[-1].shared, at_sums(accord, MIXED)
    assert shared["encoder.1.linear_layers.0.weight"].shape == (9, 8)
    assert states[-1].result["head.weight"].shape == (6 + 9 + 7 + 6 + 1, C)
    inputs = env.task.prepare(examples(20, 8).inputs)
    joint = accord.joint.mapping(shared, env)(inputs)
    blocks = list(accord.joint.blocks(shared, env)(inputs))
    assert [block.shape[1] for block in blocks] == [6, 9, 7, 6]
    assert torch.equal(joint[:, :-1], torch.cat(blocks, dim=1))
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.8


def test_the_mean_of_different_widths_is_refused_before_anything_happens() -> None:
    accord = method(joint={"combine": "mean"})
    (error,) = accord.review(task(MIXED)).errors
    assert "needs encoders of one width, but the networks have 6, 7, 9; use" in error
    assert accord.review(task(VECTOR)).errors == ()


@pytest.mark.parametrize("form", ["float16", "int8"])
def test_small_encoders_give_nearly_the_accuracy_of_float32(form: str) -> None:
    accuracies = []
    for chosen in ("float32", form):
        _, records = run(method(encoder_format=chosen))
        assert records[-1].evaluation is not None
        accuracies.append(records[-1].evaluation.accuracy)
    assert accuracies[0] > 0.8
    assert abs(accuracies[0] - accuracies[1]) <= 0.03


SETTINGS = {"partition": "dirichlet:0.1", "clients": 3, "model": ("mlp:8",)}
LOCAL = {"local": {"epochs": 2}}


def experiment(folder: Path, name: str, algorithm: str, reuse: bool, **params: Any) -> Any:
    config = load_config({**SETTINGS, "algorithm": algorithm, "params": {**LOCAL, **params}})
    return run_experiment(config, Place(folder / name, reuse=folder / "work" if reuse else None))


def test_reuse_takes_fafis_training_and_gives_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    asked: list[tuple[int, int]] = []
    inner = do_visits

    def counted(algorithm: Any, task: Any, shared: Any, visits: Any) -> Any:
        asked.extend((visit.env.round, visit.client) for visit in visits)
        return inner(algorithm, task, shared, visits)

    monkeypatch.setattr(node, "do_visits", counted)
    alone = experiment(tmp_path, "alone", "accord", reuse=False)
    experiment(tmp_path, "fafi", "fafi", reuse=True, checkpoints=1)
    del asked[:]
    shared = experiment(tmp_path, "shared", "accord", reuse=True)
    assert shared["state_hash"] == alone["state_hash"]
    assert shared["bytes_up"] == alone["bytes_up"]
    assert {round_ for round_, _ in asked} == {0, 2}  # nobody trained
    del asked[:]
    other = experiment(tmp_path, "other", "accord-ce", reuse=True)
    assert {round_ for round_, _ in asked} == {0, 1, 2}  # another objective is other work
    assert other["state_hash"] != alone["state_hash"]
