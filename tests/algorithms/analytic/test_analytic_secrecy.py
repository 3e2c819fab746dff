"""Privacy noise on sums: T30."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.analytic.afl import AFL
from fedcord.algorithms.analytic.privacy import Privacy, add_noise, sensitivity, solve_noisy
from fedcord.algorithms.analytic.stats import StatsAccumulator, SufficientStats
from fedcord.core.errors import ConfigError
from fedcord.ops.gaussian_mechanism import gaussian_noise
from fedcord.ops.ridge import solve_ridge
from fedcord.ops.symmetric import diagonal_places, svec
from tests.algorithms.analytic.samples import (
    LINEAR,
    client,
    dealt,
    env,
    gap,
    samples,
    trained,
    weight,
)


def moved(x: Tensor, label: int) -> Tensor:
    total = StatsAccumulator(len(x), 2, 1)
    total.add(x[None], torch.tensor([label]))
    stats = total.stats()
    return torch.cat([svec(stats.gram), stats.moment.reshape(-1)])


@pytest.mark.parametrize(("clip", "added", "replaced"), [(0.5, 0.559, 1.0), (1, 1.4142, 2.1213)])
def test_t30_no_pair_of_samples_moves_the_sums_further_than_the_sensitivity(
    clip: float, added: float, replaced: float
) -> None:
    assert sensitivity(clip, "add-remove") == pytest.approx(added, abs=1e-3)
    assert sensitivity(clip, "replace") == pytest.approx(replaced, abs=1e-3)
    worst_added = worst_replaced = 0.0
    for step in range(721):
        angle = 2 * math.pi * step / 720
        x = clip * torch.tensor([1.0, 0.0], dtype=torch.float64)
        z = clip * torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
        worst_added = max(worst_added, float(moved(z, 0).norm()))
        for label in (0, 1):
            worst_replaced = max(worst_replaced, float((moved(x, 0) - moved(z, label)).norm()))
    assert worst_added <= sensitivity(clip, "add-remove") + 1e-12
    assert worst_replaced <= sensitivity(clip, "replace") + 1e-12
    assert worst_added > 0.999 * sensitivity(clip, "add-remove")
    assert worst_replaced > 0.999 * sensitivity(clip, "replace")


def test_t30_noise_is_half_as_strong_off_the_diagonal() -> None:
    size = 150
    zero = SufficientStats.zero(size, 4)
    noisy = add_noise(zero, 3.0, torch.Generator().manual_seed(0))
    diagonal = noisy.gram[diagonal_places(size)]
    off = torch.ones(len(noisy.gram), dtype=torch.bool)
    off[diagonal_places(size)] = False
    assert float(diagonal.var()) == pytest.approx(9.0, rel=0.4)
    assert float(noisy.gram[off].var()) == pytest.approx(4.5, rel=0.05)
    assert float(noisy.moment.var()) == pytest.approx(9.0, rel=0.2)
    assert add_noise(zero, 0.0, torch.Generator()) is zero


def test_t30_without_epsilon_nothing_is_clipped_noised_or_claimed() -> None:
    off = Privacy()
    rows = torch.full((2, 3), 7.0)
    assert off.clipped(rows) is rows
    assert (off.noise, off.client_noise, off.server_noise) == (0.0, 0.0, 0.0)
    assert "No differential privacy" in off.statement()
    clients = dealt(samples(60), torch.arange(60).tensor_split(3))
    plain = trained(AFL(ridge=1.0, features=LINEAR), clients)
    same = trained(AFL(ridge=1.0, features=LINEAR, privacy=Privacy(clip=0.01)), clients)
    assert torch.equal(weight(same), weight(plain))


def test_noise_and_where_it_goes() -> None:
    server = Privacy(epsilon=1.0)
    assert server.noise == pytest.approx(gaussian_noise(1.0, 1e-5) * math.sqrt(2))
    shared = replace(server, noise_at="distributed", honest=4)
    local = replace(server, noise_at="local")
    assert (server.server_noise, server.client_noise) == (server.noise, 0.0)
    assert shared.total_noise(4) == pytest.approx(server.noise)
    assert local.total_noise(9) == pytest.approx(3 * server.noise)
    rows = server.clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]))
    assert rows.norm(dim=1).tolist() == pytest.approx([1.0, 0.5, 0.0])
    for privacy, word in ((server, "trusted"), (shared, "4 clients"), (local, "server included")):
        assert word in privacy.statement()
        assert "(1, 1e-05)-differentially private" in privacy.statement()


@pytest.mark.parametrize("noise_at", ["server", "distributed", "local"])
def test_private_afl_stays_near_the_exact_model_for_a_loose_budget(noise_at: str) -> None:
    data = samples(3000)
    clients = dealt(data, torch.arange(3000).tensor_split(3))
    features = replace(LINEAR, unit=True)
    exact = AFL(ridge=30.0, features=features)
    private = replace(exact, privacy=Privacy(epsilon=8.0, noise_at=noise_at))
    found, wanted = trained(private, clients), trained(exact, clients)
    assert 1e-4 < gap(weight(found), weight(wanted)) < 0.5
    assert private.traits.additive == (noise_at == "server")
    strict = replace(exact, privacy=Privacy(epsilon=0.05, noise_at=noise_at))
    assert float(trained(strict, clients).result["head.ridge"]) > 100  # the floor holds


def test_noisy_sums_with_negative_eigenvalues_are_lifted() -> None:
    gram = torch.diag(torch.tensor([5.0, -2.0], dtype=torch.float64))
    moment = torch.ones(2, 1, dtype=torch.float64)
    found, report = solve_noisy(gram, moment, 1.0)
    assert report.path == "lifted"
    assert found[:, 0].tolist() == pytest.approx([1 / 6, 10.0])
    sound, report = solve_noisy(gram.abs(), moment, 1.0)
    assert torch.equal(sound, solve_ridge(gram.abs(), moment, 1.0)[0])
    assert report.path == "cholesky"


def test_shares_of_the_noise_add_up_to_what_was_calibrated() -> None:
    exact = AFL(ridge=0.5, features=LINEAR)
    shared = Privacy(epsilon=1.0, noise_at="distributed", honest=4, clip=100.0)
    clients = dealt(samples(80), torch.arange(80).tensor_split(4))
    plain = trained(exact, clients).private["sum.moment"]
    noise = [
        trained(replace(exact, privacy=shared), clients, env(seed=seed)).private["sum.moment"]
        - plain
        for seed in range(40)
    ]
    assert float(torch.stack(noise).std()) == pytest.approx(shared.noise, rel=0.1)


def test_what_may_be_claimed_is_said_before_the_run() -> None:
    assert AFL().review(env().task).notes == ()
    shares = AFL(privacy=Privacy(epsilon=2.0, noise_at="distributed"))
    claim, warning = shares.review(env().task).notes
    assert "(2, 1e-05)-differentially private" in claim
    assert "use it with --secure" in warning


def test_privacy_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"epsilon = -1\.0: must be > 0"):
        Privacy(epsilon=-1.0)
    with pytest.raises(ConfigError, match=r"clip = 0\.0: must be > 0"):
        Privacy(clip=0.0)
    assert trained(AFL(features=LINEAR), [client(samples(20))]).round == 1
