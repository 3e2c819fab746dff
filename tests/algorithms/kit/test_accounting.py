"""The accountant against the Rényi bound worked out here, and against the exact curve."""

import importlib.util
import math

import pytest

from fedcord.algorithms.kit.accounting import accountant_review, epsilon_of
from fedcord.ops.gaussian_mechanism import gaussian_delta


def _renyi(order: int, noise: float, sampling: float) -> float:
    """Of one release over a Poisson sample, for whole orders (Mironov, Talwar, Zhang 2019)."""
    terms = [
        math.lgamma(order + 1)
        - math.lgamma(k + 1)
        - math.lgamma(order - k + 1)
        + (order - k) * math.log1p(-sampling)
        + k * math.log(sampling)
        + (k * k - k) / (2 * noise**2)
        for k in range(order + 1)
    ]
    largest = max(terms)
    return (largest + math.log(sum(math.exp(t - largest) for t in terms))) / (order - 1)


def _epsilon(noise: float, sampling: float, steps: int, delta: float) -> float:
    """The best of whole orders from 12, where the accountant has no others (up to 63)."""
    return min(
        steps * _renyi(order, noise, sampling)
        + math.log1p(-1 / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for order in range(12, 64)
    )


@pytest.mark.parametrize(
    ("noise", "sampling", "steps"), [(4.0, 0.1, 100), (6.0, 0.3, 50), (2.0, 0.01, 500)]
)
def test_epsilon_is_the_bound_worked_out_here(noise: float, sampling: float, steps: int) -> None:
    assert epsilon_of(noise, sampling, steps, 1e-5) == pytest.approx(
        _epsilon(noise, sampling, steps, 1e-5), rel=1e-9
    )


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (5.0, 10), (20.0, 100)])
def test_epsilon_without_sampling_is_true_of_the_exact_curve(noise: float, steps: int) -> None:
    """Many releases are as one with less noise, whose exact δ is known."""
    epsilon = epsilon_of(noise, 1.0, steps, 1e-5)
    together = noise / math.sqrt(steps)
    assert gaussian_delta(epsilon, together) <= 1e-5
    assert gaussian_delta(0.75 * epsilon, together) > 1e-5  # and not far from the least


def test_more_noise_fewer_steps_and_smaller_samples_cost_less() -> None:
    usual = epsilon_of(1.0, 0.1, 50, 1e-5)
    assert epsilon_of(2.0, 0.1, 50, 1e-5) < usual
    assert epsilon_of(1.0, 0.1, 25, 1e-5) < usual
    assert epsilon_of(1.0, 0.05, 50, 1e-5) < usual
    assert epsilon_of(1.0, 0.1, 0, 1e-5) == 0.0


def test_without_the_library_the_review_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert accountant_review().errors == ()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (error,) = accountant_review().errors
    assert "install it with: pip install 'fedcord[dp]'" in error
