"""The head by conjugate gradients: that of the Gram matrix, in fewer bytes, from sums only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedcord.checks.check import check_algorithm
from fedcord.checks.expectations import Expectations
from fedcord.cli.main import main
from fedcord.core.contract import Env, ServerState, Update
from fedcord.core.errors import ConfigError, NumericalError, ProtocolError
from fedcord.core.params import build, plain
from fedcord.experiment.invariance import check_invariance
from tests.algorithms.accord.encoders import gap, method, run, with_encoders
from tests.algorithms.accord.test_accord_head import dealt
from tests.algorithms.accord.test_accord_messages import C, K, encoder_bytes
from tests.checks.registered import ENCODERS
from tests.federation import VECTOR, population, task

WIDTH = 16 * K + 1


def iterative(residual: float = 1e-12, exchanges: int = 12, **values: Any) -> Any:
    solve = {"by": "gradients", "residual": residual, "exchanges": exchanges}
    return method(solve=solve, **values)


@pytest.mark.parametrize(
    "more", [{}, {"balanced": True}, {"joint": {"projection": 7}}], ids=["", "balanced", "narrow"]
)
def test_the_head_is_that_of_the_gram_matrix(more: dict[str, Any]) -> None:
    wanted = run(method(ridge=0.5, **more))[0][-1]
    states, records = run(iterative(ridge=0.5, **more))
    assert gap(states[-1].result["head.weight"], wanted.result["head.weight"]) <= 1e-8
    assert all(record.refused == () for record in records)
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.8


def test_the_ridge_is_chosen_as_well_as_from_the_spectrum() -> None:
    wanted = run(method())[0][-1]
    states, _ = run(iterative(residual=1e-6, exchanges=20))
    # steps of the grid: one random direction estimates what the spectrum says
    ratio = float(states[-1].result["head.ridge"] / wanted.result["head.ridge"])
    assert 0.1 < ratio < 10


def test_it_ends_at_the_stated_residual_and_then_nothing_is_sent() -> None:
    accord = iterative(residual=1e-4, ridge=0.5)
    states, records = run(accord)
    shares = [float(state.private["metric.residual"]) for state in states[3:]]
    used = int(states[-1].private["metric.exchanges"])
    assert 1 < used < 12
    assert shares[used] <= 1e-4 < shares[used - 1]
    assert shares[used:] == [shares[used]] * (len(shares) - used)
    wanted = run(method(ridge=0.5))[0][-1]
    gram, moment = (t.double() for t in (wanted.private["sum.gram"], wanted.private["sum.moment"]))
    whole = method().stats_of({**wanted.private, "sum.gram": gram}).gram_matrix()
    weight = states[-1].result["head.weight"]
    missing = moment - whole @ weight - 0.5 * weight
    assert float((missing.norm(dim=0) / moment.norm(dim=0)).max()) == pytest.approx(
        shares[-1], rel=1e-6
    )
    quiet = records[3 + used :]
    assert len(quiet) == 12 - used
    assert {(r.bytes_up, r.bytes_down) for r in quiet} == {(K * 8, 0)}


def test_classes_that_are_found_are_no_longer_asked_for() -> None:
    """Two classes whose features lie in few directions end before the third."""
    states, _ = run(iterative(residual=2e-3, ridge=0.5))
    asked = [s.shared["directions"].shape[1] for s in states if "directions" in s.shared]
    assert asked[0] == C
    assert asked[-1] < C


@pytest.mark.parametrize(
    ("wire", "ridge", "size"), [("packed64", "gcv", 8), ("packed32", 0.5, 4), ("fixed64", 0.5, 8)]
)
def test_bytes_follow_the_formulas(wire: str, ridge: Any, size: int) -> None:
    accord = iterative(residual=1e-3, exchanges=3, ridge=ridge, wire=wire)
    states, records = run(accord)
    here = task()
    encoders = sum(encoder_bytes(here, k, "float32") for k in range(K))
    columns = [C + (ridge == "gcv")] * 3
    down_size = 4 if wire == "packed32" else 8
    assert records[2].bytes_down == K * (8 * K + encoders)
    assert records[2].bytes_up == K * (size * WIDTH * C + 2 * size + 8 * C + 8 + 8)
    assert [r.bytes_down for r in records[3:]] == [
        K * (down_size * WIDTH * b + 8 * K) for b in columns
    ]
    assert [r.bytes_up for r in records[3:]] == [K * (size * WIDTH * b + 8) for b in columns]
    assert "directions" not in states[-1].shared  # nobody will be asked


def test_float32_travels_well_enough_for_the_usual_residual() -> None:
    wanted = run(method(ridge=0.5))[0][-1].result["head.weight"]
    found = run(iterative(residual=1e-4, ridge=0.5, wire="packed32"))[0][-1]
    assert float(found.private["metric.residual"]) <= 1e-4
    assert gap(found.result["head.weight"], wanted) <= 0.02


@pytest.mark.parametrize("balanced", [False, True])
def test_a_masked_run_gives_the_head_of_exact_sums_in_every_bit(balanced: bool) -> None:
    accord = iterative(residual=1e-4, exchanges=9, wire="fixed64", balanced=balanced)
    open_, masked = (run(accord, secure=secure) for secure in (None, 0.6))
    for name, tensor in open_[0][-1].model.items():
        assert torch.equal(masked[0][-1].model[name], tensor)
    assert all(record.refused == () for record in masked[1])
    is_masked = ["unmasking" in record.traffic for record in masked[1]]
    assert is_masked == [False, False] + [True] * 10


def test_invariance_holds_up_to_the_residual() -> None:
    clients = dealt([k % 5 for k in range(90)], 5)
    found = check_invariance(iterative(ridge=0.5), clients, Env(task(VECTOR), 0))
    assert found.given == "the encoders"
    assert found.difference <= 1e-8


def exchange(
    accord: Any, state: ServerState, memories: dict[int, Any], number: int, present: list[int]
) -> ServerState:
    """One round by hand, by those who are there."""
    people = population(VECTOR, sizes=(40, 25, 12, 60))
    env = Env(task(VECTOR), 0, number, accord.traits.rounds)
    updates: list[tuple[int, Update]] = []
    for k in present:
        done = accord.client_update(state.shared, memories.get(k, {}), people.client(k), env.at(k))
        updates.append((k, done.update))
        memories[k] = done.memory
    after: ServerState = accord.aggregate(state, iter(updates), env)
    return after


def test_an_exchange_without_everybody_of_the_first_is_asked_for_again() -> None:
    accord = iterative(ridge=0.5)
    memories: dict[int, Any] = {}
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    start = with_encoders(accord, env, [0, 1, 3])
    state = exchange(accord, start, memories, 2, [0, 1, 3])  # client 2 is late
    missed = exchange(accord, state, dict(memories), 3, [0, 3])
    assert missed.round == state.round + 1
    assert missed.private.keys() == state.private.keys()
    assert torch.equal(missed.shared["directions"], state.shared["directions"])
    assert float(missed.private["metric.exchanges"]) == 0
    again = exchange(accord, missed, dict(memories), 4, [0, 1, 2, 3])  # who was not there adds 0
    wanted = exchange(accord, state, dict(memories), 3, [0, 1, 3])
    assert float(again.private["metric.exchanges"]) == 1
    assert torch.equal(again.result["head.weight"], wanted.result["head.weight"])


def test_who_is_not_in_the_first_sums_adds_nothing_to_the_later_ones() -> None:
    """It has the encoders all the same where it was refused, or answered too late."""
    accord = iterative(ridge=0.5)
    memories: dict[int, Any] = {}
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    start = with_encoders(accord, env, [0, 1, 3])
    exchange(accord, start, memories, 2, [2])
    assert "chosen" in memories[2]
    state = exchange(accord, start, memories, 2, [0, 1, 3])
    wanted = exchange(accord, state, dict(memories), 3, [0, 1, 3])
    found = exchange(accord, state, memories, 3, [0, 1, 2, 3])
    assert float(found.private["metric.exchanges"]) == 1
    assert torch.equal(found.result["head.weight"], wanted.result["head.weight"])
    assert not memories[2]


@pytest.mark.parametrize("ridge", ["gcv", 0.5])
@pytest.mark.parametrize(
    ("name", "size"), [("moment", 1e308), ("moment", 1e200), ("trace", 1e308)]
)  # the second has a finite sum, but no finite length
def test_first_sums_that_overflow_are_an_error_and_no_head(
    name: str, size: float, ridge: Any
) -> None:
    """What comes of them is not a number, which is not above the residual either."""
    accord, people = iterative(ridge=ridge), population(VECTOR, sizes=(40, 25, 12, 60))
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    start = with_encoders(accord, env, [0, 1])
    updates: list[tuple[int, Update]] = []
    for k in range(K):
        sent = accord.client_update(start.shared, {}, people.client(k), env.at(k)).update
        huge = torch.full_like(sent.tensors[f"stats.{name}"], size)
        updates.append((k, replace(sent, tensors={**sent.tensors, f"stats.{name}": huge})))
    with pytest.raises(NumericalError, match=r"overflowed; scale the features down\.$"):
        accord.aggregate(start, iter(updates), env)


@pytest.mark.parametrize("values", [{"solve": {"by": "gradients"}}, {}], ids=["products", "gram"])
def test_fixed_sums_of_many_do_not_come_out_as_others(values: Any) -> None:
    """What each of them sends has room for two."""
    accord, people = method(wire="fixed64", **values), population(VECTOR, sizes=(40, 25, 12, 60))
    env = Env(task(VECTOR), 0, 2, len(accord.phases))
    start = with_encoders(accord, env, [0, 1])
    updates: list[tuple[int, Update]] = []
    for k in range(K):
        sent = accord.client_update(start.shared, {}, people.client(k), env.at(k)).update
        huge = torch.full_like(sent.tensors["stats.moment"], 2**62 - 1)
        updates.append((k, replace(sent, tensors={**sent.tensors, "stats.moment": huge})))
    with pytest.raises(NumericalError, match="sums in fixed point leave 64 bits"):
        accord.aggregate(start, iter(updates), env)


def test_exchanges_that_are_never_whole_end_in_an_error_and_not_without_a_head() -> None:
    accord = iterative(ridge=0.5, exchanges=2)
    memories: dict[int, Any] = {}
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    state = exchange(accord, with_encoders(accord, env, [0, 1]), memories, 2, [0, 1, 3])
    state = exchange(accord, state, dict(memories), 3, [0, 3])
    with pytest.raises(
        ProtocolError, match=r"found no head: in none of its 2 exchanges .* \(0, 1, 3\)\. Let all"
    ):
        exchange(accord, state, dict(memories), 4, [0, 1])
    found = exchange(accord, state, dict(memories), 4, [0, 1, 3])
    assert "head.weight" in found.result


def test_a_head_above_the_residual_is_noted_at_the_end_and_only_there() -> None:
    _, records = run(iterative(residual=1e-9, exchanges=2, ridge=0.5))
    assert [len(record.notes) for record in records[2:]] == [0, 0, 1]
    (note,) = records[-1].notes
    residual = records[-1].server_metrics["residual"]
    assert f"ended at residual {residual:.1e} after 2 exchanges" in note
    assert "above solve.residual = 1e-09" in note
    _, solved = run(iterative(residual=1e-3, ridge=0.5))
    assert not solved[-1].notes


def test_encoders_are_sent_once_and_clients_keep_them_until_the_end() -> None:
    accord = iterative(residual=1e-3, ridge=0.5)
    states, _ = run(accord)
    assert any(name.startswith("encoder.") for name in states[2].shared)
    assert [set(state.shared) for state in states[3:5]] == [{"directions", "members"}] * 2
    assert any(name.startswith("encoder.") for name in states[-1].result)
    memories: dict[int, Any] = {}
    env = Env(task(VECTOR), 0, 2, accord.traits.rounds)
    state = exchange(accord, with_encoders(accord, env, [0, 1]), memories, 2, [0, 1, 2, 3])
    assert {name.split(".")[0] for name in memories[2]} == {"chosen", "encoder"}
    exchange(accord, replace(state, shared={}), memories, 3, [0, 1, 2, 3])
    assert memories == {k: {} for k in range(4)}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"personal": True}, "and personal: personal heads are made from the Gram matrix"),
        ({"privacy": {"epsilon": 1.0}}, "and privacy.epsilon: every exchange would release"),
        ({"refinements": 1}, "and refinements: encoders are sent once"),
    ],
)
def test_what_needs_the_gram_matrix_is_refused(values: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        iterative(**values)


def test_without_a_word_nothing_changes_for_files_written_before() -> None:
    assert "solve" not in plain(method())
    assert build(type(method()), plain(iterative())) == iterative()
    assert method().traits.holds_sums
    assert iterative().traits.holds_sums is False
    assert iterative().traits.holds_encoders is False
    assert iterative(exchanges=4).traits.rounds == 7


def test_nobody_can_be_taken_out_or_join_and_the_command_line_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--clients", "3", "--model", "mlp:8", "--set", "local.epochs=1"]
    flags += ["--set", "solve.by=gradients", "--set", "solve.exchanges=2"]
    assert main(["run", "accord", *flags, "--out", str(out)]) == 0
    capsys.readouterr()
    for more in ([], ["--drop-encoder"]):
        assert main(["forget", str(out), "--client", "1", *more]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "accord does not keep sums with these parameters (its head was found by" in said
        assert "no Gram matrix to add to or subtract from), so nobody can be taken out" in said


def test_it_keeps_the_contract() -> None:
    accord = replace(iterative(residual=1e-3, exchanges=3), **ENCODERS)
    check_algorithm(accord, Expectations(is_random=True), tasks=["vectors"])
