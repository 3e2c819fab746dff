"""Masked sums as a run option: what the server reads, what a message shows, and who is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.apfl import APFL
from fedcord.algorithms.analytic.fedhip import FedHiP
from fedcord.algorithms.analytic.masked_sums import COHORT
from fedcord.algorithms.analytic.privacy import Privacy
from fedcord.algorithms.analytic.wire import FRACTION_BITS
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.params import build
from fedcord.experiment.api import run
from tests.algorithms.analytic.samples import (
    LINEAR,
    NARROW,
    client,
    dealt,
    env,
    gap,
    samples,
    trained,
    updates,
    weight,
)

DATA = samples(80)
CLIENTS = dealt(DATA, torch.arange(80).tensor_split(4))
PLAIN = AFL(ridge=0.5, features=LINEAR, wire="fixed64")
MASKED = replace(PLAIN, wire="masked64")


def met(method: AFL) -> ServerState:
    """The state after everybody has announced itself."""
    at = env(0, 2)
    return method.aggregate(
        method.init(at), iter(updates(method, method.init(at), CLIENTS, at)), at
    )


def test_t31_the_sum_of_masked_messages_is_that_of_plain_ones_in_every_bit() -> None:
    masked, plain = trained(MASKED, CLIENTS), trained(PLAIN, CLIENTS)
    sums = [name for name in plain.private if name.startswith("sum.")]
    assert len(sums) == 5
    for name in sums:
        assert torch.equal(masked.private[name], plain.private[name])
    assert torch.equal(weight(masked), weight(plain))
    exact = trained(AFL(ridge=0.5, features=LINEAR), CLIENTS)
    # fixed point: each of four clients rounds an entry by at most 2^-25
    worst = float((MASKED.stats_of(masked.private).gram - exact.private["sum.gram"]).abs().max())
    assert 0 < worst <= 4 * 2.0**-25
    assert gap(weight(masked), weight(exact)) < 1e-6


@pytest.mark.parametrize("kind", [FedHiP, APFL])
def test_masks_change_no_personal_model(kind: type[FedHiP] | type[APFL]) -> None:
    models = []
    for form in ("fixed64", "masked64"):
        method = kind(features=NARROW, wire=form)
        state = trained(method, CLIENTS)
        memory = method.personalize(state.model, {}, CLIENTS[1], env().at(1))
        models.append(memory["refine.weight" if kind is APFL else "head.weight"])
    assert torch.equal(*models)


def test_t31_a_single_message_is_uniform_and_tells_not_even_how_many_samples() -> None:
    state = met(MASKED)
    at = env(1, 2).at(2)
    wide = replace(MASKED, features=replace(NARROW, width=80))
    sent = wide.client_update(state.shared, {}, CLIENTS[2], at).update
    gram = sent.tensors["stats.gram"]
    assert all(tensor.dtype == torch.int64 for tensor in sent.tensors.values())
    # 3321 numbers: the top four bits fall into sixteen equal bins (chi-square, 15 degrees: 37.7)
    bins = torch.bincount((gram >> 60) + 8, minlength=16).double()
    expected = len(gram) / 16
    assert float(((bins - expected) ** 2 / expected).sum()) < 37.7
    low = torch.bincount(gram & 15, minlength=16).double()
    assert float(((low - expected) ** 2 / expected).sum()) < 37.7
    assert sent.weight == 1.0
    assert int(sent.tensors["stats.class_count"].abs().min()) > 1000  # 20 samples altogether
    twin = wide.client_update(state.shared, {}, CLIENTS[2], replace(at, seed=1)).update
    assert not torch.equal(twin.tensors["stats.gram"], gram)


def test_a_client_that_drops_out_is_refused_by_name() -> None:
    state, at = met(MASKED), env(1, 2)
    sent = updates(MASKED, state, CLIENTS, at)
    with pytest.raises(ProtocolError, match=r"1 of 4 clients .* did not answer \(client 2\)"):
        MASKED.aggregate(state, iter([*sent[:2], sent[3]]), at)
    with pytest.raises(ProtocolError, match="client 9 has not announced itself"):
        MASKED.client_update(state.shared, {}, CLIENTS[0], at.at(9))
    start = MASKED.init(env(0, 2))
    alone = updates(MASKED, start, CLIENTS[:1], env(0, 2))
    with pytest.raises(ProtocolError, match="needs at least 2"):
        MASKED.aggregate(start, iter(alone), env(0, 2))


def test_other_features_show_in_the_sum_though_no_message_can_be_read() -> None:
    state, at = met(MASKED), env(1, 2)
    odd = replace(MASKED, features=replace(LINEAR, unit=True))
    sent = [*updates(MASKED, state, CLIENTS, at)[:3], *updates(odd, state, CLIENTS, at)[3:]]
    with pytest.raises(ProtocolError, match="other features than agreed"):
        MASKED.aggregate(state, iter(sent), at)


def test_who_is_there_is_all_that_the_first_round_tells() -> None:
    state = met(MASKED)
    assert state.shared[COHORT].tolist() == [0, 1, 2, 3]
    first = MASKED.client_update({}, {}, CLIENTS[0], env(0, 2).at(0)).update
    assert list(first.tensors) == ["masks.present"]
    assert int(first.tensors["masks.present"]) == 1
    assert (MASKED.traits.rounds, PLAIN.traits.rounds) == (2, 1)


def test_what_masks_rule_out() -> None:
    assert not MASKED.traits.additive
    assert "only their sum is known" in (MASKED.why_not_forget() or "")
    with pytest.raises(ConfigError, match="class counts would travel in the open"):
        build(AFL, {"wire": "masked64", "balanced": True})
    with pytest.raises(ConfigError, match="which wire = masked64 hides"):
        build(FedHiP, {"wire": "masked64", "alpha": 1.0, "personalize_at": "server"})


def test_noise_of_masked_clients_adds_up_to_what_was_calibrated() -> None:
    private = replace(
        MASKED, privacy=Privacy(epsilon=1.0, noise_at="distributed", honest=4, clip=100.0)
    )
    exact = trained(PLAIN, CLIENTS).private["sum.moment"].double() / 2**FRACTION_BITS
    noise = []
    for seed in range(40):
        noisy = (
            trained(private, CLIENTS, env(seed=seed)).private["sum.moment"].double()
            / 2**FRACTION_BITS
        )
        noise.append(noisy - exact)
    assert float(torch.stack(noise).std()) == pytest.approx(private.privacy.noise, rel=0.1)


def test_what_may_be_claimed_is_said_before_the_run() -> None:
    task = env().task
    assert PLAIN.review(task).notes == ()
    (masks,) = MASKED.review(task).notes
    assert "no single message" in masks
    assert "a simulation of the protocol, not protection" in masks
    shares = replace(PLAIN, privacy=Privacy(epsilon=2.0, noise_at="distributed"))
    claim, warning = shares.review(task).notes
    assert "(2, 1e-05)-differentially private" in claim
    assert "use wire=masked64" in warning
    assert (
        len(replace(shares, wire="masked64").review(task).notes) == 2
    )  # masks and claim, no warning


@pytest.mark.parametrize("engine", ["sequential", "wire"])
def test_a_masked_run_gives_the_plain_runs_result(tmp_path: Path, engine: str) -> None:
    found = [
        run(
            "afl",
            out=tmp_path / form,
            engine=engine,
            clients=4,
            partition="iid",
            params={"wire": form, "ridge": 1.0},
        )
        for form in ("fixed64", "masked64")
    ]
    assert found[0]["accuracy"] == found[1]["accuracy"] > 0.8
    assert found[1]["bytes_up"] - found[0]["bytes_up"] == 4 * (
        8 + 8
    )  # four announcements and their weights


def test_bad_budgets_are_refused_in_words() -> None:
    for epsilon in (0.0, -1.0):
        with pytest.raises(ConfigError, match=r"privacy\.epsilon = .*must be > 0"):
            build(AFL, {"privacy": {"epsilon": epsilon}})
    assert trained(PLAIN, [client(DATA)]).round == 1
