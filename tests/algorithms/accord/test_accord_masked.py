"""Masked sums of accord: what the server reads, what travels when, and what masks rule out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.analytic.masked_sums import COHORT
from fedcord.checks import Expectations, check_algorithm
from fedcord.cli.main import main
from fedcord.core.contract import Env, ServerState
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.experiment.invariance import check_invariance
from tests.algorithms.accord.encoders import (
    MIXED,
    at_round,
    at_sums,
    client,
    gap,
    method,
    run,
    solved,
    sums_of,
    with_encoders,
)
from tests.algorithms.accord.test_accord_messages import WEIGHT, C, K, encoder_bytes
from tests.checks.registered import registered
from tests.federation import VECTOR, examples, population, task

SIZES = (40, 25, 12, 60)
CHOSEN = [0, 1, 3]


def people(values: dict[str, object] = VECTOR) -> list[ClientData]:
    everyone = population(values, SIZES)
    return [everyone.client(k) for k in range(len(SIZES))]


def met(accord: Accord, values: dict[str, object] = VECTOR) -> tuple[ServerState, Env]:
    """The state before the sums, with drawn encoders and everybody announced."""
    env = at_sums(accord, values)
    start = with_encoders(accord, env, CHOSEN)
    return replace(start, shared={**start.shared, COHORT: torch.arange(K)}), env


@pytest.mark.parametrize("values", [VECTOR, MIXED], ids=["alike", "mixed"])
def test_the_head_of_masked_sums_is_that_of_plain_ones_in_every_bit(values: Any) -> None:
    heads, sums, own = {}, {}, {}
    for wire in ("packed64", "fixed64", "masked64"):
        accord = method(ridge=0.5, wire=wire, personal=True)
        state, env = met(accord, values)
        after = solved(accord, state, people(values), env)
        heads[wire], sums[wire] = after.result["head.weight"], accord.stats_of(after.private)
        memory = accord.personalize(after.model, {}, people(values)[1], env.at(1))
        own[wire] = memory["head.weight"]
    assert torch.equal(heads["masked64"], heads["fixed64"])
    assert torch.equal(own["masked64"], own["fixed64"])
    # fixed point: each of the clients rounds an entry by at most 2^-25
    rounding = float((sums["masked64"].gram - sums["packed64"].gram).abs().max())
    assert 0 < rounding <= K * 2.0**-25
    assert gap(heads["masked64"], heads["packed64"]) <= 1e-6


def test_a_whole_masked_run_gives_the_plain_runs_head() -> None:
    plain, masked = (run(method(wire=wire)) for wire in ("fixed64", "masked64"))
    assert torch.equal(masked[0][-1].result["head.weight"], plain[0][-1].result["head.weight"])
    assert all(record.refused == () for record in masked[1])


def test_a_single_message_shows_neither_sums_nor_how_many_samples_there_are() -> None:
    accord = method(wire="masked64")
    state, env = met(accord)
    sent = accord.client_update(state.shared, {}, people()[2], env.at(2)).update
    gram = sent.tensors["stats.gram"]
    assert all(tensor.dtype == torch.int64 for tensor in sent.tensors.values())
    # 1225 numbers: the top four bits fall into sixteen equal bins (chi-square, 15 degrees: 37.7)
    bins = torch.bincount((gram >> 60) + 8, minlength=16).double()
    expected = len(gram) / 16
    assert float(((bins - expected) ** 2 / expected).sum()) < 37.7
    assert sent.weight == 1.0
    plain = method(wire="fixed64")
    open_ = plain.client_update(state.shared, {}, people()[2], at_sums(plain).at(2)).update
    largest = int(open_.tensors["stats.gram"].abs().max())
    assert int(gram.abs().max()) > 1000 * largest


@pytest.mark.parametrize("rule", ["size", "all"])
def test_bytes_of_every_phase_follow_the_formulas(rule: str) -> None:
    most = 2 if rule == "size" else K
    accord = method(wire="masked64", selection={"rule": rule, "max_encoders": most})
    states, records = run(accord)
    here, chosen = task(), states[-1].shared["chosen"].tolist()
    assert len(chosen) == most
    encoders = sum(encoder_bytes(here, k, "float32") for k in chosen)
    width = 16 * most + 1
    sums = 8 * width * (width + 1) // 2 + 8 * width * C + 8 * C + 8 + 8
    messages = encoders + most * (4 * C * 16 + 4 * C)
    names, cohort = 8 * most, 8 * K
    up = [messages, K * 8, K * sums]
    down = [0, K * names, K * (names + cohort + encoders)]
    if rule == "size":  # class counts first; then it is known who trains
        up, down = [K * 4 * C, *up], [0, K * names, *down[1:]]
    assert [record.bytes_up for record in records] == [part + K * WEIGHT for part in up]
    assert [record.bytes_down for record in records] == down


def test_the_meeting_is_a_round_of_its_own_before_the_sums() -> None:
    assert [phase.value for phase in method(wire="masked64").phases] == [
        "class counts",
        "encoders",
        "who is there",
        "sums",
    ]
    assert method(wire="masked64", selection={"rule": "all"}).traits.rounds == 3


@pytest.mark.parametrize(
    ("number", "kept", "missing"),
    [
        (2, (), "round 3 of accord is for who is there, but who was chosen has not been sent"),
        (3, ("chosen",), "the encoders of clients 0, 1, 3 have not been sent"),
        (3, ("chosen", "encoder"), "round 4 of accord is for sums, but who is there has not been"),
        (4, ("chosen", "encoder", COHORT), "has 4 rounds .* asked for number 5"),
    ],
)
def test_a_client_asked_out_of_phase_refuses(number: Any, kept: Any, missing: Any) -> None:
    accord = method(wire="masked64")
    state, env = met(accord)
    env = at_round(env, number)
    shared = {n: t for n, t in state.shared.items() if n.startswith(kept or ("nothing",))}
    with pytest.raises(ProtocolError, match=missing):
        accord.client_update(shared, {}, people()[0], env.at(0))
    with pytest.raises(ProtocolError, match=missing):
        accord.aggregate(replace(state, shared=shared), iter([]), env)
    with pytest.raises(ProtocolError, match=missing):
        accord.expected_update(shared, env.at(0))


def test_encoders_travel_once_and_wait_at_the_server_for_the_meeting() -> None:
    states, _ = run(method(wire="masked64"))
    waiting, sent = states[2], states[3]
    assert set(waiting.shared) == {"chosen"}
    assert {name.split(".")[0] for name in waiting.result} == {"encoder"}
    assert set(sent.shared) == {"chosen", COHORT, *waiting.result}
    assert sent.result == {}
    for name, tensor in waiting.result.items():
        assert torch.equal(sent.shared[name], tensor)


def test_whoever_is_missing_or_alone_is_named() -> None:
    accord = method(wire="masked64")
    state, env = met(accord)
    sent = sums_of(accord, state, people(), env)
    with pytest.raises(ProtocolError, match=r"1 of 4 clients .* did not answer \(client 2\)"):
        accord.aggregate(state, iter([*sent[:2], sent[3]]), env)
    with pytest.raises(ProtocolError, match="client 9 has not announced itself"):
        accord.client_update(state.shared, {}, people()[0], env.at(9))
    with pytest.raises(ProtocolError, match="needs at least 2"):
        run(accord, sizes=(30,))


def test_sums_of_other_encoders_show_in_the_sum() -> None:
    accord = method(wire="masked64")
    state, env = met(accord)
    other = {**state.shared, **with_encoders(accord, env, CHOSEN, same=True).shared}
    odd = accord.client_update(other, {}, people()[3], env.at(3)).update
    sent = [*sums_of(accord, state, people(), env)[:3], (3, odd)]
    with pytest.raises(ProtocolError, match="other features than agreed"):
        accord.aggregate(state, iter(sent), env)


def test_an_encoder_can_still_be_dropped_since_only_the_sum_is_needed() -> None:
    accord = method(ridge=0.5, wire="masked64")
    state, env = met(accord, MIXED)
    found = accord.drop_encoder(solved(accord, state, people(MIXED), env), 1, env)
    fresh = with_encoders(accord, env, [0, 3])
    start = replace(fresh, shared={**fresh.shared, COHORT: torch.arange(K)})
    wanted = solved(accord, start, people(MIXED), env)
    assert gap(found.result["head.weight"], wanted.result["head.weight"]) <= 1e-5


def test_what_masks_rule_out_is_said_together() -> None:
    with pytest.raises(ConfigError) as caught:
        method(wire="masked64", balanced=True, refinements=1)
    assert "class counts would travel in the open" in str(caught.value)
    assert "the same masks on a second message would show" in str(caught.value)


def test_notes_say_what_is_hidden_and_what_is_not() -> None:
    assert method().review(task()).notes == ()
    hidden, open_ = method(wire="masked64").review(task()).notes
    assert "the exact sum over all clients and no single message" in hidden
    assert "encoders, the prototypes sent with them, and class counts travel in the open" in open_


def test_forget_says_why_it_cannot_and_leaves_the_run_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--clients", "3", "--model", "mlp:8", "--set", "local.epochs=1"]
    assert main(["run", "accord", *flags, "--set", "wire=masked64", "--out", str(out)]) == 0
    before = (out / "result.json").read_text()
    for more in ([], ["--drop-encoder"]):
        assert main(["forget", str(out), "--client", "1", *more]) == 2
        assert "its messages were masked, and only their sum is known" in capsys.readouterr().err
    assert (out / "result.json").read_text() == before


def test_certificate_masks_move_the_head_by_rounding_only() -> None:
    accord = method(wire="masked64", ridge=0.5)
    samples = examples(90, seed=3)
    clients = [client(samples, slice(k, None, 5)) for k in range(5)]
    found = check_invariance(accord, clients, Env(task(VECTOR), 0))
    assert found.given == "the encoders"
    assert 0 < found.difference <= 1e-6


CHECKS = (
    "same-outputs", "inputs-unchanged", "order-free", "equal-updates", "resume", "engines-agree",
    "nothing-leaks", "predictor", "learns",
)  # fmt: skip


def test_the_contract_holds_but_for_clients_that_are_alone_or_fall_silent() -> None:
    accord, _ = registered("accord")
    assert isinstance(accord, Accord)
    masked = replace(accord, refinements=0, wire="masked64")
    # who is in the sums is what the meeting has told everybody
    promises = Expectations(is_random=True, private_may_be_sent=("ledger.client",))
    report = check_algorithm(masked, promises, only=CHECKS, tasks=["vectors"], collect=True)
    assert "0 of 9 checks failed" in str(report)
