"""How much Gaussian noise hides one sample: the analytic Gaussian mechanism.

Reference: Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy: Analytical
Calibration and Optimal Denoising", ICML 2018. The classical formula √(2 ln(1.25/δ))/ε asks for more
noise than needed and holds only for ε ≤ 1.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr

from fedcord.core.errors import ConfigError

BISECTIONS = 100


def gaussian_delta(epsilon: float, noise: float) -> float:
    """The smallest δ for which noise of `noise` times the sensitivity is (ε, δ)-private."""
    half = 1 / (2 * noise)
    # e^ε Φ(·) through the logarithm: e^ε alone overflows
    second = math.exp(epsilon + float(log_ndtr(-half - epsilon * noise)))
    return float(ndtr(half - epsilon * noise)) - second


def gaussian_noise(epsilon: float, delta: float) -> float:
    """The smallest standard deviation, in units of the sensitivity, that is (ε, δ)-private."""
    problems = []
    if not (math.isfinite(epsilon) and epsilon > 0):
        problems.append(f"epsilon = {epsilon:g}: must be a finite number > 0.")
    if not 0 < delta < 1:
        problems.append(f"delta = {delta:g}: must be > 0 and < 1.")
    if problems:
        raise ConfigError(problems)
    low, high = 1e-10, 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        if gaussian_delta(epsilon, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def composed_epsilon(noises: list[float], delta: float) -> float:
    """ε of several releases by zero-concentrated privacy: ρ + 2√(ρ ln(1/δ)), ρ = Σ 1/(2 noise²).

    Args:
        noises: standard deviation of each release in units of its own sensitivity.
        delta: of the whole.
    """
    rho = sum(1 / (2 * noise**2) for noise in noises)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
