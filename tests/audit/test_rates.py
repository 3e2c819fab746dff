"""Rates of an attack against scikit-learn and against simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve

from fedcord.audit.rates import attack_rates, gaussian_limit, mean_rates


@pytest.mark.parametrize("digits", [1, 12])
def test_area_and_share_found_are_those_of_scikit_learn(digits: int) -> None:
    draw = np.random.default_rng(0)
    truth = np.arange(500) < 200
    scores = np.round(draw.normal(size=500) + truth, digits)  # one digit makes many equal
    found = attack_rates(scores, truth)
    assert found.auc == pytest.approx(roc_auc_score(truth, scores))
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert found.found == pytest.approx(true[false <= 0.01].max())
    assert found.low < found.auc < found.high
    assert found.candidates == 500


def test_accuracy_is_of_taking_the_higher_half() -> None:
    scores = np.random.default_rng(1).normal(size=100)
    truth = np.arange(100) % 2 == 0
    wanted = balanced_accuracy_score(truth, scores > np.median(scores))
    assert attack_rates(scores, truth).accuracy == pytest.approx(wanted)


def test_equal_scores_are_a_guess() -> None:
    found = attack_rates(np.zeros(40), np.arange(40) < 20)
    assert (found.auc, found.found, found.accuracy) == (0.5, 0.0, 0.5)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    draw = np.random.default_rng(2)
    truth, shift = np.arange(120) < 60, 0.8
    area = norm.cdf(shift / np.sqrt(2))
    rates = [attack_rates(draw.normal(size=120) + shift * truth, truth) for _ in range(600)]
    covered = np.mean([r.low <= area <= r.high for r in rates])
    assert 0.92 < covered < 0.98
    over_four = [mean_rates(rates[i : i + 4]) for i in range(0, 600, 4)]
    assert 0.90 < np.mean([r.low <= area <= r.high for r in over_four]) <= 1.0
    assert over_four[0].clients == 4


def test_an_interval_that_ends_at_one_makes_that_of_the_mean_no_shorter() -> None:
    """Against DeLong's variances, which no end has cut off."""
    draw = np.random.default_rng(4)
    truth = np.arange(40) < 20
    scores = [draw.normal(size=40) + 2.5 * truth for _ in range(3)]
    near_one = mean_rates([attack_rates(own, truth) for own in scores])
    assert any(attack_rates(own, truth).high == 1 for own in scores)
    spreads = [
        _placements(own[truth], own[~truth]).var(ddof=1) / 20
        + _placements(own[~truth], own[truth]).var(ddof=1) / 20
        for own in scores
    ]
    wanted = norm.ppf(0.975) * np.sqrt(sum(spreads)) / 3
    assert near_one.auc - near_one.low == pytest.approx(wanted)


def _placements(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each the share of others that are lower."""
    found: NDArray[np.float64] = (own[:, None] > others).mean(axis=1)
    return found


def test_no_attack_exceeds_what_noise_allows() -> None:
    """The likelihood ratio of one number under Gaussian noise is the number itself."""
    noise, draw = 1.5, np.random.default_rng(3)
    truth = np.arange(200_000) < 100_000
    found, limit = attack_rates(truth + noise * draw.normal(size=200_000), truth), None
    limit = gaussian_limit(noise)
    assert found.auc == pytest.approx(limit.auc, abs=0.005)
    assert found.found == pytest.approx(limit.found, abs=0.003)
