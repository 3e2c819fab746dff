"""T30: calibration of the noise, against the published table and an independent implementation."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from fedcord.core.errors import ConfigError
from fedcord.ops.gaussian_mechanism import composed_epsilon, gaussian_delta, gaussian_noise

TABLE = {
    (0.1, 1e-5): 30.750,
    (0.5, 1e-5): 7.0318,
    (1, 1e-5): 3.7306,
    (2, 1e-5): 1.9938,
    (4, 1e-5): 1.0812,
    (8, 1e-5): 0.6002,
    (0.1, 1e-6): 36.305,
    (0.5, 1e-6): 8.0576,
    (1, 1e-6): 4.2247,
    (2, 1e-6): 2.2305,
    (4, 1e-6): 1.1935,
    (8, 1e-6): 0.6529,
}


@pytest.mark.parametrize(("budget", "noise"), TABLE.items())
def test_t30_noise_of_the_table_to_four_digits(budget: tuple[float, float], noise: float) -> None:
    assert gaussian_noise(*budget) == pytest.approx(noise, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "noise"), [(0.5, 3.0), (1.0, 1.0), (3.0, 0.7)])
def test_delta_is_the_hockey_stick_divergence_by_integration(epsilon: float, noise: float) -> None:
    """Derived anew: δ = ∫ max(0, p − e^ε q) of two normals one sensitivity apart."""
    start = noise**2 * epsilon + 0.5  # where p = e^ε q, for p around 1 and q around 0
    p, q = norm(1, noise), norm(0, noise)
    factor = math.exp(epsilon)
    wanted, _ = quad(lambda x: p.pdf(x) - factor * q.pdf(x), start, start + 30 * noise)
    assert gaussian_delta(epsilon, noise) == pytest.approx(wanted, rel=1e-6)


def test_noise_is_the_smallest_that_is_private_and_large_epsilon_does_not_overflow() -> None:
    noise = gaussian_noise(1.0, 1e-5)
    assert gaussian_delta(1.0, noise) <= 1e-5 < gaussian_delta(1.0, noise * 0.999)
    assert 0 < gaussian_noise(800.0, 1e-5) < 0.1


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_epsilon_that_is_not_positive_is_refused(epsilon: float) -> None:
    with pytest.raises(ConfigError, match=r"epsilon = .*must be a finite number > 0"):
        gaussian_noise(epsilon, 1e-5)


def test_delta_outside_zero_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="delta = 1: must be > 0 and < 1"):
        gaussian_noise(1.0, 1.0)


def test_two_releases_cost_more_than_one_and_one_with_less_noise_as_much_as_two() -> None:
    assert composed_epsilon([4.0, 4.0], 1e-5) > composed_epsilon([4.0], 1e-5)
    one = composed_epsilon([4.0 / 2**0.5], 1e-5)
    assert composed_epsilon([4.0, 4.0], 1e-5) == pytest.approx(one)
