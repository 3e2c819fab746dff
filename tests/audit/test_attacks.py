"""The attacks where the answer is known: memorised, never seen, and in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.audit.attacks import RATIO, SHADOWS, THRESHOLD, Shadow, attacks
from fedcord.audit.rates import Rates, mean_rates
from fedcord.audit.signals import (
    Signals,
    confidence,
    encoder_signals,
    left_out_residual,
    score_signals,
)

WIDTH, CLASSES, MEMBERS = 20, 10, 50


def network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def memorise(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> None:
    descent = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        descent.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        descent.step()


def candidates(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels that mean nothing, and who is a member."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(2 * MEMBERS, WIDTH, generator=draw)
    labels = torch.randint(CLASSES, (2 * MEMBERS,), generator=draw)
    return inputs, labels, torch.arange(2 * MEMBERS) < MEMBERS


def signals_of(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> Signals:
    with torch.no_grad():
        return score_signals([model(inputs).double()], labels, regression=False)


def features_of(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> Signals:
    views = [inputs, inputs + 0.1]
    with torch.no_grad():
        return encoder_signals([model[:2](view).double() for view in views], labels, None)


def test_what_a_network_has_learnt_by_heart_is_found() -> None:
    inputs, labels, is_member = candidates()
    model = network(0)
    memorise(model, inputs[is_member], labels[is_member])
    found = attacks(signals_of(model, inputs, labels), is_member, [])[THRESHOLD]
    assert found.auc > 0.95
    assert found.low > 0.9
    assert found.accuracy > 0.9


@pytest.mark.parametrize("of", [signals_of, features_of])
def test_about_a_model_that_has_seen_nobody_attacks_are_blind(
    of: Callable[[nn.Sequential, Tensor, Tensor], Signals],
) -> None:
    """Over twenty models, so that the interval is narrow enough to show a bias."""
    found: dict[str, list[Rates]] = {}
    for seed in range(20):
        inputs, labels, is_member = candidates(seed)
        shadows = []
        for number in range(4):
            draw = torch.Generator().manual_seed(100 * seed + number // 2)
            has = (torch.randperm(2 * MEMBERS, generator=draw) < MEMBERS) ^ (number % 2 == 1)
            shadows.append(Shadow(of(network(100 * seed + number + 1), inputs, labels), has))
        target = of(network(100 * seed), inputs, labels)
        for attack, rates in attacks(target, is_member, shadows).items():
            found.setdefault(attack, []).append(rates)
    assert found.keys() == {THRESHOLD, SHADOWS, RATIO}
    for of_attack in found.values():
        over_all = mean_rates(of_attack)
        assert over_all.low < 0.5 < over_all.high
        assert over_all.high - over_all.low < 0.06


def test_shadows_learn_what_to_look_for_and_how_hard_a_sample_is() -> None:
    """A signal that only memorised samples have is found without being told which way it goes."""
    inputs, labels, is_member = candidates(2)
    models = [network(seed) for seed in range(5)]
    pairs = torch.randperm(2 * MEMBERS, generator=torch.Generator().manual_seed(7)) < MEMBERS
    whose = [is_member, pairs, ~pairs, is_member ^ pairs, ~(is_member ^ pairs)]
    for model, has in zip(models, whose, strict=True):
        memorise(model, inputs[has], labels[has])
    seen = [{**features_of(m, inputs, labels)} for m in models]
    for signals in seen:
        signals["loss"] = -signals["loss"]  # the wrong way round
    shadows = [Shadow(s, has) for s, has in zip(seen[1:], whose[1:], strict=True)]
    found = attacks(seen[0], is_member, shadows)
    assert found[THRESHOLD].auc < 0.5
    assert found[SHADOWS].auc > 0.7
    assert found[RATIO].auc > 0.7


def test_left_out_residuals_are_those_of_regressions_without_the_sample() -> None:
    draw = torch.Generator().manual_seed(3)
    rows = torch.randn(12, 3, generator=draw, dtype=torch.float64)
    labels = torch.arange(12) % 3
    x = torch.cat([rows, torch.ones(12, 1, dtype=torch.float64)], dim=1)
    y = F.one_hot(labels).double()
    ridge = 1e-2 * (x.T @ x).diagonal().mean()
    wanted = []
    for i in range(12):
        kept = torch.arange(12) != i
        system = x[kept].T @ x[kept] + ridge * torch.eye(4, dtype=torch.float64)
        weight = torch.linalg.solve(system, x[kept].T @ y[kept])
        wanted.append(float((y[i] - x[i] @ weight).square().sum()))
    np.testing.assert_allclose(left_out_residual(rows, labels).numpy(), wanted)


def test_confidence_is_the_log_odds_of_the_right_class() -> None:
    scores = torch.tensor([[2.0, 0.5, -1.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 2])
    p = scores.softmax(1).gather(1, labels[:, None]).squeeze(1)
    torch.testing.assert_close(confidence(scores, labels), (p / (1 - p)).log())
