"""Clients that join, leave, or take their encoder with them; refinement of encoders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fedcord.algorithms.accord.joint_features import JointFeatures
from fedcord.algorithms.analytic.membership import forget, join
from fedcord.cli.main import main
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.tensors import select
from tests.algorithms.accord.encoders import (
    MIXED,
    at_round,
    at_sums,
    gap,
    method,
    run,
    solved,
    sums_of,
    with_encoders,
)
from tests.federation import VECTOR, population, task

CHOSEN = [0, 1, 3]


def federation(accord: Any, values: Any = MIXED) -> Any:
    env = at_sums(accord, values)
    people = population(values, sizes=(40, 25, 12, 60))
    return env, with_encoders(accord, env, CHOSEN), [people.client(k) for k in range(4)]


def without(clients: Any, gone: Any) -> Any:
    """Everyone else under their own numbers."""
    return [data if k != gone else None for k, data in enumerate(clients)]


def solved_by(accord: Any, state: Any, clients: Any, env: Any) -> Any:
    updates = [
        (k, accord.client_update(state.shared, {}, data, env.at(k)).update)
        for k, data in enumerate(clients)
        if data is not None
    ]
    return accord.aggregate(state, iter(updates), env)


@pytest.mark.parametrize("personal", [False, True])
def test_late_joiners_give_the_head_of_everybody_from_the_start(personal: Any) -> None:
    accord = method(personal=personal)
    assert accord.traits.holds_sums
    env, state, clients = federation(accord)
    early = solved_by(accord, state, without(clients, 2), env)
    late = [(2, sums_of(accord, state, clients, env)[2][1])]
    found, wanted = join(accord, early, late, env), solved(accord, state, clients, env)
    for name, tensor in wanted.result.items():
        assert gap(found.result[name].double(), tensor.double()) <= 1e-8
    assert found.private["ledger.client"].tolist() == [0, 1, 2, 3]


def test_leaving_gives_the_head_of_the_others_and_the_encoder_stays() -> None:
    accord = method()
    env, state, clients = federation(accord)
    full = solved(accord, state, clients, env)
    update = sums_of(accord, state, clients, env)[1][1]
    found = forget(accord, full, 1, update, env)
    wanted = solved_by(accord, state, without(clients, 1), env)
    assert gap(found.result["head.weight"], wanted.result["head.weight"]) <= 1e-8
    assert accord.encoders_of(found.shared) == CHOSEN
    with pytest.raises(ConfigError, match="class weights were made with that client"):
        forget(method(balanced=True), full, 1, update, env)


@pytest.mark.parametrize("wire", ["packed64", "packed32", "svec", "fixed64"])
@pytest.mark.parametrize("gone", CHOSEN)
def test_dropping_an_encoder_is_solving_from_scratch_with_the_remaining_ones(
    wire: Any, gone: Any
) -> None:
    accord = method(ridge=0.5, wire=wire, personal=True)
    env, state, clients = federation(accord)
    found = accord.drop_encoder(solved(accord, state, clients, env), gone, env)
    others = [k for k in CHOSEN if k != gone]
    fresh = with_encoders(accord, env, others)
    wanted = solved(accord, fresh, clients, env)
    assert accord.encoders_of(found.shared) == others
    assert found.shared.keys() == fresh.shared.keys()
    tolerance = {"packed32": 1e-4, "fixed64": 1e-5}.get(wire, 1e-8)  # what travelled was rounded
    for name in ("head.weight", "head.gram"):
        assert gap(found.result[name], wanted.result[name]) <= tolerance
    assert accord.stats_of(found.private).tag == accord.agreed_tag(fresh.shared, env)
    inputs = env.task.prepare(population(MIXED).test.inputs)
    scores = [accord.predictor(end.model, {}, env).scores(inputs) for end in (found, wanted)]
    assert gap(scores[0], scores[1]) <= tolerance


def test_after_a_drop_others_can_still_leave_and_join() -> None:
    accord = method(ridge=0.5)
    env, state, clients = federation(accord)
    dropped = accord.drop_encoder(solved(accord, state, clients, env), 1, env)
    updates = dict(sums_of(accord, dropped, clients, env))
    left = forget(accord, dropped, 2, updates[2], env)
    wanted = solved_by(accord, with_encoders(accord, env, [0, 3]), without(clients, 2), env)
    assert gap(left.result["head.weight"], wanted.result["head.weight"]) <= 1e-8
    again = join(accord, left, [(2, updates[2])], env)
    assert gap(again.result["head.weight"], dropped.result["head.weight"]) <= 1e-8
    fewer = replace(updates[3], weight=updates[3].weight - 1)
    with pytest.raises(ProtocolError, match="remove exactly what was added"):
        forget(accord, dropped, 3, fewer, env)


def test_what_cannot_be_dropped_is_refused() -> None:
    accord = method()
    env, state, clients = federation(accord)
    full = solved(accord, state, clients, env)
    with pytest.raises(ConfigError, match=r"client 2 has no encoder in the model \(those of 0, 1"):
        accord.drop_encoder(full, 2, env)
    alone = solved(accord, with_encoders(accord, env, [3]), clients, env)
    with pytest.raises(ConfigError, match="the encoder of client 3 is the only one"):
        accord.drop_encoder(alone, 3, env)
    with pytest.raises(ConfigError, match="only be dropped where it has columns of its own"):
        method(joint={"projection": 5}).drop_encoder(full, 1, env)


@pytest.fixture
def finished(tmp_path: Path) -> Any:
    out = tmp_path / "run"
    flags = ["--clients", "4", "--model", "mlp:8", "--set", "local.epochs=1"]
    assert main(["run", "accord", *flags, "--set", "personal=true", "--out", str(out)]) == 0
    return out


def told(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_forget_command_says_that_the_encoder_stays_and_drops_it_when_asked(
    finished: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = told(capsys, "forget", finished, "--in-place", "--client", 1)
    assert code == 0
    assert "the head of the model" in said
    assert "The encoder that client 1 trained STAYS in the model" in said
    code, said = told(
        capsys, "forget", finished, "--in-place", "--client", 1, "--drop-encoder", "--json"
    )
    assert code == 0  # its sums are gone already, the encoder goes now
    assert json.loads(said)["encoder"] == "dropped"
    assert json.loads(said)["difference"] <= 1e-8
    code, said = told(capsys, "forget", finished, "--in-place", "--client", 2, "--drop-encoder")
    assert code == 0
    assert "The encoder that client 2 trained is dropped too." in said
    stored = json.loads((finished / "result.json").read_text())
    assert stored["forgotten"] == [1, 2]
    assert stored["accuracy"] > 0.5
    code, said = told(capsys, "forget", finished, "--in-place", "--client", 2, "--drop-encoder")
    assert code == 2
    assert "client 2 has no encoder in the model" in said
    assert json.loads((finished / "result.json").read_text()) == stored


def test_drop_encoder_is_refused_where_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "afl", "--clients", "3", "--out", str(tmp_path / "afl")]) == 0
    code, said = told(capsys, "forget", tmp_path / "afl", "--client", 1, "--drop-encoder")
    assert code == 2
    assert "AFL uses no encoder trained by a client" in said


def before_refinement(accord: Any) -> Any:
    """The state after the first solve of drawn encoders, the head shared."""
    people = population(VECTOR, sizes=(40, 25, 12, 60))
    clients = [people.client(k) for k in range(4)]
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    state = solved(accord, with_encoders(accord, env, CHOSEN), clients, env)
    return state, clients, at_round(env, 3)


def squared_loss(accord: Any, state: Any, shared: Any, data: Any, env: Any) -> Any:
    """Of the head on a client's samples, given encoders: what refinement minimises."""
    features = accord.joint.mapping(shared, env)(env.task.prepare(data.inputs))
    targets = F.one_hot(data.labels, 3).double()
    return float((targets - features @ state.result["head.weight"]).square().sum(1).mean())


def test_refinement_lowers_the_heads_loss_at_the_client_by_moving_its_own_encoder_only() -> None:
    accord = method(refinements=1, refine={"epochs": 8, "lr": 0.1})
    state, clients, env = before_refinement(accord)
    result = accord.client_update(state.shared, {}, clients[1], env.at(1))
    own = select(result.update.tensors, "model")
    after = accord.aggregate(state, iter([(1, result.update)]), env)
    assert {n for n, t in after.shared.items() if not torch.equal(t, state.shared[n])} == {
        f"encoder.1.{name}" for name in own
    }
    assert "head.weight" not in after.shared  # it does not travel a second time
    losses = [
        squared_loss(accord, state, shared, clients[1].train, env)
        for shared in (state.shared, after.shared)
    ]
    assert losses[1] < 0.95 * losses[0]
    assert result.update.metrics["train_loss"] < losses[0]


def test_the_loss_of_refinement_is_that_of_the_whole_head() -> None:
    """With a learning rate of nothing, the reported loss is the head's own on the client."""
    accord = method(refinements=1, refine={"epochs": 1, "lr": 1e-30, "batch_size": 1000})
    state, clients, env = before_refinement(accord)
    reported = accord.client_update(state.shared, {}, clients[0], env.at(0)).update.metrics
    wanted = squared_loss(accord, state, state.shared, clients[0].train, env)
    assert reported["train_loss"] == pytest.approx(wanted, rel=1e-5)


def test_where_classes_weigh_differently_in_the_head_they_do_in_refinement() -> None:
    """Sample by sample: what the head pays for each, with the weight of its class."""
    settings = {"epochs": 1, "lr": 1e-30, "batch_size": 1000}
    accord = method(balanced=True, refinements=1, refine=settings)
    people = population(VECTOR, sizes=(40, 25, 12, 60))
    clients = [people.client(k) for k in range(4)]
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds or 0)
    weight = torch.tensor([0.2, 1.5, 4.0], dtype=torch.float64)
    state = with_encoders(accord, env, CHOSEN)
    state = replace(state, shared={**state.shared, "class_weight": weight})
    state, env = solved(accord, state, clients, env), at_round(env, 3)
    data = clients[0].train
    features = accord.joint.mapping(state.shared, env)(env.task.prepare(data.inputs))
    total = 0.0
    for row, label in zip(features, data.labels.tolist(), strict=True):
        scores = (row @ state.result["head.weight"]).tolist()
        goals = [float(number == label) for number in range(3)]
        error = sum((goal - score) ** 2 for goal, score in zip(goals, scores, strict=True))
        total += float(weight[label]) * error
    reported = accord.client_update(state.shared, {}, clients[0], env.at(0)).update.metrics
    assert reported["train_loss"] == pytest.approx(total / len(data), rel=1e-5)
    unweighted = squared_loss(accord, state, state.shared, data, env)
    assert total / len(data) != pytest.approx(unweighted, rel=0.05)


def test_columns_of_an_encoder_follow_those_before_it() -> None:
    here, columns = task(MIXED), JointFeatures().block_columns
    assert columns([0, 1, 3, 5], here, 0) == slice(0, 6)
    assert columns([0, 1, 3, 5], here, 3) == slice(15, 21)
    assert columns([0, 1, 3, 5], here, 5) == slice(21, 28)


def test_every_refinement_takes_two_more_rounds_and_the_head_is_solved_again() -> None:
    accord = method(ridge=0.5, refinements=1, refine={"epochs": 2})
    states, records = run(accord)
    assert len(records) == len(method().phases) + 2
    assert not torch.equal(states[3].result["head.weight"], states[5].result["head.weight"])
    clients = [population(sizes=(40, 25, 12, 60)).client(k) for k in range(4)]
    start = replace(states[4], private={}, result={})
    wanted = solved(accord, start, clients, at_sums(accord))
    assert torch.equal(states[5].result["head.weight"], wanted.result["head.weight"])
