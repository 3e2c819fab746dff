"""Means over a sample of data sets, against a published example and another implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from fedcord.core.errors import NumericalError
from fedcord.statistics import random_effects

TUBERCULOSIS = [  # cases and others among the vaccinated, then among those who were not
    *[(4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619)],
    *[(33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619)],
    *[(505, 87886, 499, 87892), (29, 7470, 45, 7232), (17, 1699, 65, 1600)],
    *[(186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825)],
]
"""Thirteen trials of the BCG vaccine (Colditz et al., JAMA 1994)."""


def log_risk_ratios() -> tuple[list[float], list[float]]:
    means = [math.log(a / (a + b) / (c / (c + d))) for a, b, c, d in TUBERCULOSIS]
    variances = [1 / a - 1 / (a + b) + 1 / c - 1 / (c + d) for a, b, c, d in TUBERCULOSIS]
    return means, variances


def test_trials_of_the_bcg_vaccine() -> None:
    """A mean log risk ratio of −0.715 with τ² = 0.318, as every textbook of the field has it."""
    found = random_effects(*log_risk_ratios())
    assert found.spread is not None
    assert found.spread**2 == pytest.approx(0.3181, abs=5e-5)
    assert found.mean == pytest.approx(-0.7150, abs=5e-5)


@pytest.mark.parametrize("scale", [0.02, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_another_implementation_agrees(seed: int, scale: float) -> None:
    reference = pytest.importorskip("statsmodels.stats.meta_analysis")
    rng = np.random.default_rng(seed)
    y, v = rng.normal(0.1, scale, size=6), rng.uniform(0.001, 0.02, size=6)
    expected = reference.combine_effects(y, v, method_re="pm", use_t=True, atol=1e-9)
    assert (expected.tau2 > 0) == (scale > 0.1)
    # without scatter beyond the data sets' own their way would narrow the interval, ours does not
    low, high = expected.conf_int()[3 if expected.tau2 > 0 else 1]
    found = random_effects(y.tolist(), v.tolist())
    assert found.spread is not None
    assert found.spread**2 == pytest.approx(expected.tau2, rel=1e-6, abs=1e-12)
    assert found.mean == pytest.approx(expected.mean_effect_re, rel=1e-6)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=1e-6)
    error = expected.sd_eff_w_re
    assert found.p == pytest.approx(2 * student.sf(abs(expected.mean_effect_re / error), 5))


def test_data_sets_that_agree_by_chance_do_not_narrow_the_interval() -> None:
    found = random_effects([0.10, 0.11, 0.09, 0.10], [0.01] * 4)
    assert found.spread == 0
    assert found.interval.low == pytest.approx(0.1 - student.ppf(0.975, 3) * 0.1 / 2)


def test_equally_known_data_sets_are_a_plain_sample() -> None:
    """With equal variances and more scatter than they explain it is Student's t over means."""
    y = [0.05, 0.2, 0.4, 0.1]
    found = random_effects(y, [1e-3] * 4)
    half = student.ppf(0.975, 3) * np.std(y, ddof=1) / 2
    assert found.mean == pytest.approx(np.mean(y))
    assert found.interval.high == pytest.approx(np.mean(y) + half)
    exact = random_effects(y, [0.0] * 4)
    assert exact.interval.high == pytest.approx(found.interval.high)


def test_a_data_set_without_spread_does_not_outweigh_all_others() -> None:
    assert random_effects([0.1, 0.3, 0.1], [0.0, 0.04, 0.02]) == random_effects(
        [0.1, 0.3, 0.1], [0.02, 0.04, 0.02]
    )


def test_spread_that_is_only_rounding_is_none() -> None:
    """Three more right of 359 in every seed: exact to the last bit, and known no better for it."""
    right = np.array([348, 306, 339])
    flat = (right + 1) / 359 - right / 359
    other = np.array([1, -1, 1]) / 359
    means, variance = [flat.mean(), other.mean()], other.var(ddof=1) / 3
    assert 0 < flat.var(ddof=1) / 3 < 1e-30
    found = random_effects(means, [flat.var(ddof=1) / 3, variance])
    assert found == random_effects(means, [0.0, variance])
    assert found.p == pytest.approx(0.392, abs=5e-4)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_variances_of_any_size_have_an_interval(size: float) -> None:
    """Also where the variance between data sets is all there is, to the last bit."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        y = rng.normal(size=rng.integers(2, 9)) * size
        v = 10 ** rng.uniform(-45, -1, size=len(y)) * size**2
        found = random_effects(y.tolist(), v.tolist())
        assert found.p is not None
        assert found.spread is not None
        assert 0 <= found.spread <= np.std(y, ddof=1) * (1 + 1e-9)


@pytest.mark.parametrize("size", [1e-9, 1e6])
def test_the_unit_does_not_matter(size: float) -> None:
    y, v = np.array([0.05, 0.2, 0.4, 0.1]), np.array([1e-3, 2e-3, 1e-3, 5e-3])
    found = random_effects(y.tolist(), v.tolist())
    scaled = random_effects((y * size).tolist(), (v * size**2).tolist())
    assert found.spread is not None
    assert scaled.p == pytest.approx(found.p, rel=1e-9)
    assert scaled.spread == pytest.approx(found.spread * size, rel=1e-9, abs=0)


def test_the_interval_covers_what_it_claims() -> None:
    """Six data sets with five seeds each, whose own spread has to be estimated."""
    rng = np.random.default_rng(0)
    tries, covered = 400, 0
    for _ in range(tries):
        level = rng.normal(0.1, 0.05, size=6)
        runs = level[:, None] + rng.normal(0, 1, size=(6, 5)) * rng.uniform(0.01, 0.1, (6, 1))
        found = random_effects(runs.mean(axis=1).tolist(), (runs.var(axis=1, ddof=1) / 5).tolist())
        assert found.interval.low is not None
        assert found.interval.high is not None
        covered += found.interval.low <= 0.1 <= found.interval.high
    assert covered / tries > 0.92  # three standard errors below 0.95


@pytest.mark.parametrize(
    ("means", "variances", "reason"),
    [
        ([0.1], [0.01], "one data set says nothing"),
        ([0.1, 0.1], [0.0, 0.0], "all 2 data sets"),
        ([0.1, 0.1 + 2e-17], [1e-34, 0.0], "all 2 data sets"),
    ],
)
def test_what_cannot_be_said_is_not(
    means: list[float], variances: list[float], reason: str
) -> None:
    found = random_effects(means, variances)
    assert found.mean == pytest.approx(0.1)
    assert found.p is found.spread is None
    assert reason in found.interval.reason


def test_means_whose_square_vanishes_agree() -> None:
    assert random_effects([1e-200, 2e-200], [0.0, 0.0]).p is None


def test_variances_that_are_none_are_refused() -> None:
    with pytest.raises(NumericalError, match="every mean needs one"):
        random_effects([0.1, 0.2], [0.1])
    with pytest.raises(NumericalError, match="none is below zero"):
        random_effects([0.1, 0.2], [0.1, -0.1])
