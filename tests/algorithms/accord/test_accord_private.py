"""Noise on accord's sums: how far one sample moves them, how much there is, what is claimed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.accord.accord import Accord
from fedcord.algorithms.analytic.privacy import noisy_system, sensitivity, solve_noisy
from fedcord.checks import CHECKS, Expectations, check_algorithm
from fedcord.cli.main import main
from fedcord.core.contract import Env, ServerState
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.ops.symmetric import svec, unpack
from tests.algorithms.accord.encoders import (
    at_sums,
    client,
    gap,
    method,
    pooled_features,
    run,
    solved,
    with_encoders,
)
from tests.checks.registered import registered
from tests.federation import examples, task

SAMPLES = examples(120, seed=3)
CLIENTS = [client(SAMPLES, slice(k, None, 3)) for k in range(3)]
CHOSEN = [0, 2]


def private(epsilon: float = 1.0, **values: Any) -> Accord:
    privacy = {"epsilon": epsilon, **values.pop("privacy", {})}
    return method(privacy=privacy, **values)


def ready(accord: Accord, seed: int = 0) -> tuple[ServerState, Env]:
    """The state before the sums, with drawn encoders."""
    env = at_sums(accord, seed=seed)
    return with_encoders(accord, env, CHOSEN), env


def sums(accord: Accord, data: ClientData) -> Tensor:
    """What one client sends without masks: (svec(G), Q) in one vector."""
    state, env = ready(accord)
    sent = accord.client_update(state.shared, {}, data, env.at(0)).update.tensors
    return torch.cat([svec(sent["stats.gram"]), sent["stats.moment"].reshape(-1)])


JOINTS: list[dict[str, Any]] = [
    {},
    {"combine": "mean"},
    {"projection": 5},
    {"expansion": "relu", "width": 40},
]


@pytest.mark.parametrize("joint", JOINTS, ids=["concat", "mean", "projection", "relu"])
@pytest.mark.parametrize("clip", [0.5, 1.0, 2.0])
def test_no_sample_moves_the_sums_further_than_the_noise_is_calibrated_to(
    clip: float, joint: Any
) -> None:
    accord = private(privacy={"clip": clip}, joint=joint)
    few = Examples(SAMPLES.inputs[:20], SAMPLES.labels[:20])
    everything, most = sums(accord, client(few)), 0.0
    for gone in range(20):
        left = [k for k in range(20) if k != gone]
        without = sums(accord, client(few, torch.tensor(left)))
        assert float((everything - without).norm()) <= sensitivity(clip, "add-remove") + 1e-9
        most = max(most, float((everything - without).norm()))
        other = client(few, torch.tensor([*left, (gone + 1) % 20]))
        replaced = float((everything - sums(accord, other)).norm())
        assert replaced <= sensitivity(clip, "replace") + 1e-9
    if clip <= 1:  # the constant alone is as long as that, so every sample is shortened to it
        assert most == pytest.approx(sensitivity(clip, "add-remove"))


def test_unit_blocks_and_the_constant_have_length_root_two_so_all_are_shortened_alike() -> None:
    accord = private(privacy={"clip": math.sqrt(2)})
    state, env = ready(accord)
    inputs = env.task.prepare(SAMPLES.inputs)
    whole = accord.joint.mapping(state.shared, env)(inputs)
    assert torch.allclose(whole.norm(dim=1), torch.full((120,), math.sqrt(2), dtype=torch.float64))
    exact = method()
    at = at_sums(exact)
    wanted = exact.client_update(state.shared, {}, CLIENTS[0], at.at(0)).update.tensors
    found = accord.client_update(state.shared, {}, CLIENTS[0], env.at(0)).update.tensors
    for name in ("stats.gram", "stats.moment"):
        assert gap(found[name], wanted[name]) <= 1e-12  # a clip of √2 loses nothing
    half = private(privacy={"clip": 1.0})
    short = half.client_update(state.shared, {}, CLIENTS[0], env.at(0)).update.tensors
    assert gap(2 * short["stats.gram"], wanted["stats.gram"]) <= 1e-12


@pytest.mark.parametrize("clip", [1.0, 1.3])
@pytest.mark.parametrize("joint", [{}, {"expansion": "relu", "width": 12}], ids=["concat", "relu"])
def test_with_hardly_any_noise_it_is_the_ridge_regression_of_shortened_features(
    clip: float, joint: Any
) -> None:
    accord = private(1e12, ridge=0.5, joint=joint, privacy={"clip": clip, "ridge_floor": 0.0})
    state, env = ready(accord)
    after = solved(accord, state, CLIENTS, env)
    features, targets = pooled_features(accord, state, SAMPLES, env)
    features = features * (clip / features.norm(dim=1, keepdim=True)).clamp(max=1)
    system = features.T @ features + 0.5 * torch.eye(features.shape[1], dtype=torch.float64)
    wanted = torch.linalg.solve(system, features.T @ targets)
    assert gap(after.result["head.weight"], wanted) <= 1e-4
    # prediction shortens what it sees as the sums did
    scores = accord.predictor(after.model, {}, env).scores(env.task.prepare(SAMPLES.inputs))
    assert gap(scores, features @ after.result["head.weight"]) <= 1e-9


def noise_in_result(accord: Accord, seed: int) -> tuple[Tensor, Tensor]:
    """What was added to G [D, D] and to Q [D, C], seen in nothing but the released result."""
    state, env = ready(accord, seed)
    after = solved(accord, state, CLIENTS, env)
    features, targets = pooled_features(accord, state, SAMPLES, env)
    features = features * (accord.privacy.clip / features.norm(dim=1, keepdim=True)).clamp(max=1)
    gram, ridge = unpack(after.result["head.gram"]), after.result["head.ridge"]
    eye = torch.eye(len(gram), dtype=torch.float64)
    moment = gram @ after.result["head.weight"]
    return gram - ridge * eye - features.T @ features, moment - features.T @ targets


@pytest.mark.parametrize(
    ("noise_at", "wire", "times"),
    [
        ("server", "packed64", 1.0),
        ("server", "fixed64", 1.0),
        ("distributed", "packed64", math.sqrt(3 / 2)),
        ("distributed", "fixed64", math.sqrt(3 / 2)),
        ("local", "svec", math.sqrt(3)),
    ],
)
def test_the_released_head_and_gram_carry_the_noise_they_should(
    noise_at: str, wire: str, times: float
) -> None:
    """Three clients, two of them surely honest: shares of σ/√2 add up to σ√(3/2)."""
    accord = private(
        ridge=1e4, wire=wire, personal=True, privacy={"noise_at": noise_at, "clip": 1.2}
    )
    wanted = accord.privacy.noise * times
    assert accord.privacy.total_noise(3) == pytest.approx(wanted)
    grams, moments = zip(*(noise_in_result(accord, seed) for seed in range(12)), strict=True)
    diagonal = torch.cat([gram.diagonal() for gram in grams])
    above = torch.cat([gram[tuple(torch.triu_indices(33, 33, 1))] for gram in grams])
    assert float(diagonal.std()) == pytest.approx(wanted, rel=0.15)
    assert float(above.std()) == pytest.approx(wanted / math.sqrt(2), rel=0.05)
    assert float(torch.cat(moments).std()) == pytest.approx(wanted, rel=0.1)
    assert abs(float(above.mean())) < 4 * wanted / math.sqrt(2 * len(above))


def test_noise_is_on_the_message_itself_unless_the_server_is_trusted() -> None:
    exact = sums(private(privacy={"noise_at": "server"}), CLIENTS[0])
    for noise_at, share in (("distributed", 1 / math.sqrt(2)), ("local", 1.0)):
        accord = private(privacy={"noise_at": noise_at})
        noise = sums(accord, CLIENTS[0]) - exact
        assert float(noise.std()) == pytest.approx(share * accord.privacy.noise, rel=0.1)


def test_personal_heads_are_made_from_the_noisy_gram_and_stay_finite_where_noise_rules() -> None:
    accord = private(0.05, personal=True)  # noise far beyond the samples: eigenvalues are lifted
    state, env = ready(accord)
    after = solved(accord, state, CLIENTS, env)
    gram = unpack(after.result["head.gram"])
    values = torch.linalg.eigvalsh(gram)
    assert float(values.min()) >= 0.1 * float(after.result["head.ridge"]) * (1 - 1e-9)
    own = accord.personalize(after.model, {}, CLIENTS[1], env.at(1))["head.weight"]
    assert bool(torch.isfinite(own).all())
    exact = accord.stats_of(after.private).gram_matrix()
    assert float((gram - exact).norm()) > 10 * float(exact.norm())
    assert set(solved(replace(accord, personal=False), state, CLIENTS, env).result) == {
        "head.weight",
        "head.seen",
        "head.ridge",
    }


def test_the_system_that_is_solved_is_the_one_that_is_released() -> None:
    gram = torch.tensor([[5.0, 1.0], [1.0, -2.0]], dtype=torch.float64)
    moment = torch.ones(2, 1, dtype=torch.float64)
    for matrix in (gram, gram @ gram):  # with an eigenvalue to lift, and without
        weight, report = solve_noisy(matrix, moment, 1.0)
        assert torch.allclose(noisy_system(matrix, 1.0) @ weight, moment)
        assert report.path == ("lifted" if matrix is gram else "cholesky")


def test_a_loose_budget_learns_and_a_strict_one_keeps_its_ridge() -> None:
    records = run(private(200.0, personal=True), sizes=(100, 75, 75, 100))[1]
    assert records[-1].evaluation is not None
    assert records[-1].evaluation.accuracy > 0.8
    strict = private(0.05)
    state, env = ready(strict)
    least = strict.privacy.least_ridge(33, 3)
    assert float(solved(strict, state, CLIENTS, env).result["head.ridge"]) == least > 100


def test_without_epsilon_nothing_changes() -> None:
    plain, off = method(ridge=0.5), method(ridge=0.5, privacy={"clip": 0.01})
    state, env = ready(plain)
    heads = [solved(accord, state, CLIENTS, env).result["head.weight"] for accord in (plain, off)]
    assert torch.equal(*heads)


def test_what_noise_rules_out_is_said_together() -> None:
    with pytest.raises(ConfigError) as caught:
        private(balanced=True, refinements=1)
    assert "class weights change the noise needed" in str(caught.value)
    assert "every solve releases sums anew" in str(caught.value)


def test_a_second_head_of_the_same_sums_is_refused() -> None:
    accord = private()
    state, env = ready(accord)
    after = solved(accord, state, CLIENTS, env)
    assert "a second release would need a budget" in (accord.why_not_forget() or "")
    with pytest.raises(ConfigError, match="a second head would need a budget of its own"):
        accord.drop_encoder(after, 0, env)


def test_notes_say_plainly_that_encoders_are_not_covered() -> None:
    claim, limit = private(2.0).review(task()).notes
    assert "(2, 1e-05)-differentially private" in claim
    assert "epsilon = 2 covers the head given the encoders. The ENCODERS ARE NOT COVERED" in limit
    shares = private(2.0, privacy={"noise_at": "distributed"})
    assert any("use it with --secure" in note for note in shares.review(task()).notes)


def test_a_private_run_says_so_and_cannot_forget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--clients", "3", "--model", "mlp:8", "--set", "local.epochs=1"]
    privacy = ["--set", "privacy.epsilon=5", "--set", "personal=true"]
    assert main(["run", "accord", *flags, *privacy, "--out", str(out)]) == 0
    assert "ENCODERS ARE NOT COVERED" in " ".join(capsys.readouterr().err.split())
    assert main(["forget", str(out), "--client", "1"]) == 2
    assert "its sums carry privacy noise" in capsys.readouterr().err


def test_the_contract_holds_with_noise() -> None:
    accord, expectations = registered("accord")
    assert isinstance(accord, Accord)
    noisy = replace(private(100.0), local=accord.local, selection=accord.selection, personal=True)
    promises = Expectations(is_random=expectations.is_random, learns_at_least=0.6)
    assert f"0 of {len(CHECKS)} checks failed" in str(
        check_algorithm(noisy, promises, tasks=["vectors"], collect=True)
    )
