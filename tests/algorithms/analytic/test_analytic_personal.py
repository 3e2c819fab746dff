"""FedHiP and APFL: T7 to T10, T16, and bad input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.apfl import APFL
from fedcord.algorithms.analytic.fedhip import FedHiP
from fedcord.algorithms.analytic.membership import forget, model_difference
from fedcord.core.contract import ServerState
from fedcord.core.errors import ConfigError
from fedcord.core.params import build
from fedcord.experiment.invariance import check_invariance
from tests.algorithms.analytic.samples import (
    LINEAR,
    NARROW,
    client,
    dealt,
    env,
    gap,
    one_hot,
    samples,
    trained,
    updates,
    weight,
)

DATA = samples(90)
OWN = torch.arange(20)
OTHERS = torch.arange(20, 90)


def personal(method: FedHiP | APFL, state: ServerState, number: int = 0) -> Tensor:
    own = [client(DATA, OWN), client(DATA, OTHERS)][number]
    memory = method.personalize(state.model, {}, own, env().at(number))
    return memory["refine.weight" if isinstance(method, APFL) else "head.weight"]


def two(method: FedHiP | APFL) -> ServerState:
    return trained(method, dealt(DATA, [OWN, OTHERS]))


@pytest.mark.parametrize("alpha", [0.5, 7.0])
def test_t7_one_client_is_ridge_with_its_samples_counted_more(alpha: float) -> None:
    method = FedHiP(alpha=alpha, alpha_mode="additive", ridge=1.3, features=LINEAR)
    state = trained(method, [client(DATA)])
    x, y = DATA.inputs.double(), one_hot(DATA.labels)
    left = (1 + alpha) * x.T @ x + 1.3 * torch.eye(8, dtype=torch.float64)
    wanted = torch.linalg.solve(left, (1 + alpha) * x.T @ y)
    found = method.personalize(state.model, {}, client(DATA), env().at(0))["head.weight"]
    assert gap(found, wanted) < 1e-10


def test_t8_without_weight_of_its_own_a_client_has_the_global_model() -> None:
    method = FedHiP(alpha=0.0, features=NARROW)
    state = two(method)
    for number in (0, 1):
        assert gap(personal(method, state, number), weight(state)) < 1e-12
    afl = trained(AFL(features=NARROW), dealt(DATA, [OWN, OTHERS]))
    assert torch.equal(weight(afl), weight(state))


def test_t9_with_all_the_weight_a_client_has_its_own_ridge_model() -> None:
    method = FedHiP(alpha=1e12, alpha_mode="additive", ridge=1.0, local_ridge=0.4, features=LINEAR)
    x, y = DATA.inputs[OWN].double(), one_hot(DATA.labels[OWN])
    wanted = torch.linalg.solve(x.T @ x + 0.4 * torch.eye(8, dtype=torch.float64), x.T @ y)
    assert gap(personal(method, two(method)), wanted) < 1e-6


@settings(max_examples=20)
@given(st.lists(st.integers(0, 6), min_size=70, max_size=70))
def test_t10_dealing_the_others_anew_does_not_change_a_personal_model(owner: list[int]) -> None:
    owners = torch.tensor(owner)
    method = FedHiP(features=NARROW)
    wanted = personal(method, two(method))
    clients = dealt(DATA, [OWN, *(OTHERS[owners == k] for k in range(7))])
    assert gap(personal(method, trained(method, clients)), wanted) < 1e-9


@pytest.mark.parametrize("method", [FedHiP(features=NARROW), APFL(features=NARROW)])
def test_t10_certificate_of_personal_models(method: FedHiP | APFL) -> None:
    clients = dealt(DATA, [OWN, *OTHERS.tensor_split(4)])
    told: list[tuple[int, int]] = []
    found = check_invariance(method, clients, env(), lambda *step: told.append(step))
    assert found.difference < 1e-8
    assert told == [(done, 6) for done in range(1, 6)]


def test_t10_a_ridge_per_client_breaks_invariance_only_in_their_number() -> None:
    method = FedHiP(alpha=1.0, client_ridge=2.0, features=NARROW)
    clients = dealt(DATA, [OWN, *OTHERS.tensor_split(4)])
    found = {d.name: d.difference for d in check_invariance(method, clients, env()).dealings}
    assert found["sorted by class, as many clients"] < 1e-8
    assert found["shuffled, twice the clients"] > 1e-3
    assert float(trained(method, clients).result["head.ridge"]) == 10.0


def test_meanings_of_alpha_agree() -> None:
    additive = FedHiP(alpha=3.0, alpha_mode="additive", ridge=1.0, features=LINEAR)
    relative = replace(additive, alpha=3.0 * 20 / 90, alpha_mode="relative")
    convex = replace(additive, alpha=0.75, alpha_mode="convex")
    wanted = personal(additive, two(additive))
    for method in (relative, convex):
        assert gap(personal(method, two(method)), wanted) < 1e-12


def test_server_and_client_make_the_same_personal_model() -> None:
    at_client = FedHiP(alpha=0.5, features=NARROW)
    at_server = replace(at_client, personalize_at="server")
    state = two(at_server)
    for number in (0, 1):
        wanted = personal(at_client, two(at_client), number)
        assert gap(personal(at_server, state, number), wanted) < 1e-8
    unheard = at_server.personalize(state.model, {}, client(DATA, OWN), env().at(5))
    assert torch.equal(unheard["head.weight"], weight(state))


def test_personal_models_suit_a_client_with_swapped_labels() -> None:
    swapped = replace(DATA, labels=torch.where(torch.arange(90) < 20, 2 - DATA.labels, DATA.labels))
    fit, held = torch.arange(12), torch.arange(12, 20)
    for method in (FedHiP(features=NARROW), APFL(features=NARROW)):
        state = trained(method, [client(swapped, fit), client(swapped, OTHERS)])
        memory = method.personalize(state.model, {}, client(swapped, fit), env().at(0))
        inputs, labels = swapped.inputs[held], swapped.labels[held]
        own = method.predictor(state.model, memory, env().at(0)).scores(inputs).argmax(1) == labels
        shared = method.predictor(state.model, {}, env()).scores(inputs).argmax(1) == labels
        assert int(own.sum()) > int(shared.sum()) + 2


def test_t16_client_without_samples_has_the_global_model_and_a_ridge_per_client_counts_it() -> None:
    nothing = client(DATA, slice(0, 0))
    method = FedHiP(features=NARROW)
    clients = [*dealt(DATA, [OWN, OTHERS]), nothing]
    state = trained(method, clients)
    memory = method.personalize(state.model, {}, nothing, env().at(2))
    assert torch.equal(memory["head.weight"], weight(state))
    assert float(memory["head.alpha"]) == 0.0
    compatible = FedHiP(alpha=1.0, client_ridge=0.5, features=NARROW)
    assert float(trained(compatible, clients).result["head.ridge"]) == 1.5
    zero = APFL(features=NARROW).personalize(state.model, {}, nothing, env().at(2))
    assert not bool(zero["refine.weight"].any())


def test_apfl_refinement_is_ridge_on_what_the_global_model_left() -> None:
    method = APFL(refine_ridge=0.6, features=NARROW)
    state = two(method)
    inputs, y = DATA.inputs[OWN], one_hot(DATA.labels[OWN])
    phi, psi = (
        method.features.mapping({}, env())(inputs),
        method.refinement.mapping({}, env())(inputs),
    )
    left = psi.T @ psi + 0.6 * torch.eye(psi.shape[1], dtype=torch.float64)
    wanted = torch.linalg.solve(left, psi.T @ (y - phi @ weight(state)))
    found = personal(method, state)
    assert gap(found, wanted) < 1e-8
    scores = method.predictor(state.model, {"refine.weight": found}, env()).scores(inputs)
    assert torch.allclose(scores, phi @ weight(state) + psi @ wanted)
    off = replace(method, refinement_weight=0.0)
    plain = off.predictor(state.model, {"refine.weight": found}, env()).scores(inputs)
    assert torch.allclose(plain, phi @ weight(state))


def test_forgetting_a_client_changes_global_model_and_metric_exactly() -> None:
    method = FedHiP(features=NARROW)
    clients = dealt(DATA, [OWN, *OTHERS.tensor_split(3)])
    state = trained(method, clients)
    sent = updates(method, state, clients, env())
    found = forget(method, state, 1, sent[1][1], env())
    left = iter([u for u in sent if u[0] != 1])
    wanted = method.aggregate(method.init(env()), left, env())
    assert model_difference(found, wanted) < 1e-8
    assert gap(personal(method, found), personal(method, wanted)) < 1e-8
    server = FedHiP(alpha=1.0, personalize_at="server", features=NARROW)
    with pytest.raises(ConfigError, match="personal models were made by the server"):
        forget(server, trained(server, clients), 1, sent[1][1], env())


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="below 1 when alpha_mode is convex"):
        FedHiP(alpha=1.0, alpha_mode="convex")
    with pytest.raises(ConfigError, match=r"alpha = -1\.0: must be"):
        FedHiP(alpha=-1.0)
    with pytest.raises(ConfigError, match="needs the client's samples"):
        FedHiP(personalize_at="server")
    with pytest.raises(ConfigError, match="local_ridge > 0: set alpha to a number"):
        FedHiP(local_ridge=1.0)
    with pytest.raises(ConfigError, match="ridge = 0: must be"):
        build(FedHiP, {"ridge": 0})
