import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import ConfigError, NumericalError
from fedcord.statistics.intervals import bootstrap_interval, mean_interval

# Student (1908), additional hours of sleep under the second drug of his table
SLEEP = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_t_interval_of_students_sleep_data() -> None:
    found = mean_interval(SLEEP)
    assert found.mean == pytest.approx(2.33)
    # t(0.975, 9) = 2.262 from any printed table; s = 2.0022
    assert found.low == pytest.approx(2.33 - 2.262 * 2.0022 / 10**0.5, abs=1e-3)
    assert found.high == pytest.approx(2.33 + 2.262 * 2.0022 / 10**0.5, abs=1e-3)
    assert (found.n, found.method, found.reason) == (10, "Student t", "")


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_t_interval_agrees_with_scipy(confidence: float) -> None:
    values = np.random.default_rng(3).normal(0.8, 0.02, 7)
    expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    found = mean_interval(values, confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_one_value_has_no_interval_and_says_so() -> None:
    found = mean_interval([0.7])
    assert (found.mean, found.low, found.high) == (0.7, None, None)
    assert found.reason == "n = 1, no interval"
    assert not found.has_interval


def test_equal_values_have_no_interval_and_say_so() -> None:
    found = mean_interval([0.1 + 0.2, 0.3, 0.3])  # equal but for rounding
    assert (found.low, found.high) == (None, None)
    assert found.reason == "all 3 values are equal, no interval"


def test_t_interval_covers_as_often_as_it_claims() -> None:
    samples = np.random.default_rng(11).normal(0.5, 0.1, (2000, 5))
    hits = 0
    for values in samples:
        found = mean_interval(values)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.5 <= found.high
    # three standard errors of a share of 0.95 over 2000 repetitions
    assert abs(hits / 2000 - 0.95) < 3 * (0.95 * 0.05 / 2000) ** 0.5


def test_bootstrap_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(5).exponential(1.0, 40)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20000, rng=np.random.default_rng(1), method="BCa"
    ).confidence_interval
    found = bootstrap_interval(values, np.random.default_rng(2), num_resamples=20000)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    # skewed data: BCa reaches further on the long side, the t interval cannot
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.mean > found.mean - found.low


def test_bootstrap_is_a_function_of_its_generator() -> None:
    first = bootstrap_interval(SLEEP, np.random.default_rng(0), num_resamples=500)
    again = bootstrap_interval(SLEEP, np.random.default_rng(0), num_resamples=500)
    other = bootstrap_interval(SLEEP, np.random.default_rng(1), num_resamples=500)
    assert first == again != other


def test_bootstrap_of_one_value_has_no_interval() -> None:
    assert bootstrap_interval([1.0], np.random.default_rng(0)).reason == "n = 1, no interval"


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]]])
def test_wrong_shapes_are_refused(bad: list[float]) -> None:
    with pytest.raises(NumericalError, match="needs a list of at least one number"):
        mean_interval(bad)


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(NumericalError, match="1 of 3 values are not finite"):
        mean_interval([0.1, float("nan"), 0.2])


def test_confidence_in_percent_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"confidence 95 .* write 0\.95"):
        mean_interval([0.1, 0.2], confidence=95)
