import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import ConfigError, NumericalError
from fedcord.statistics.intervals import bootstrap_interval, mean_interval, share_interval

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


# --- shares --------------------------------------------------------------------------------------


def test_a_share_interval_is_student_t_on_the_logit_of_the_mean() -> None:
    found = share_interval([0.5, 0.6])
    error = 0.05 / (0.55 * 0.45)  # of the mean, carried over by the slope of the logit
    ends = np.log(0.55 / 0.45) + 12.7062 * error * np.array([-1, 1])  # t(0.975, 1)
    assert (found.low, found.high) == pytest.approx(1 / (1 + np.exp(-ends)), abs=1e-5)
    assert (found.n, found.mean, found.method, found.reason) == (2, 0.55, "logit t", "")


def test_where_shares_spread_little_it_is_the_plain_t_interval() -> None:
    values = [0.801, 0.802, 0.799, 0.8]
    plain, bounded = mean_interval(values), share_interval(values)
    assert (bounded.low, bounded.high) == pytest.approx((plain.low, plain.high), abs=1e-5)


@pytest.mark.parametrize(
    "values", [[1.0, 0.99, 1.0], [0.0, 0.02], [1.0, 0.0], [1.0, 1.0, 0.999999], [0.0, 1e-11]]
)
def test_a_share_interval_stays_on_the_scale_and_holds_the_mean(values: list[float]) -> None:
    found = share_interval(values)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.mean <= found.high <= 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([0.7], "n = 1, no interval"),
        ([1.0], "n = 1, no interval"),
        ([1.0, 1.0, 1.0], "all 3 values are equal, no interval"),
        ([0.0, 0.0], "all 2 values are equal, no interval"),
        ([0.0, 5e-324], "all 2 values are equal, no interval"),
        ([0.3, 0.3], "all 2 values are equal, no interval"),
    ],
)
def test_shares_without_spread_have_no_interval(values: list[float], reason: str) -> None:
    found = share_interval(values)
    assert (found.low, found.high, found.reason) == (None, None, reason)
    assert (found.mean, found.method) == (values[0], "logit t")


@pytest.mark.parametrize("values", [[0.5, 1.1], [-0.1, 0.5], [87.0, 88.0]])
def test_what_is_no_share_is_refused(values: list[float]) -> None:
    with pytest.raises(NumericalError, match="divide percentages by 100"):
        share_interval(values)


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize(
    ("alpha", "beta", "at_least"),
    [(80, 20, 0.95), (8, 2, 0.95), (2, 2, 0.95), (19, 1, 0.93), (99, 1, 0.93)],
)
def test_share_intervals_cover_as_often_as_they_claim(
    n: int, alpha: float, beta: float, at_least: float
) -> None:
    """Also where accuracies crowd at the top and Student's t covers 89 % and leaves the scale."""
    samples = np.random.default_rng(11).beta(alpha, beta, (600, n))
    true, hits, plain_hits = alpha / (alpha + beta), 0, 0
    for values in samples:
        found, plain = share_interval(values), mean_interval(values)
        assert found.low is not None
        assert found.high is not None
        assert plain.low is not None
        assert plain.high is not None
        assert 0 <= found.low <= found.high <= 1
        hits += found.low <= true <= found.high
        plain_hits += plain.low <= true <= plain.high
    assert hits / len(samples) > at_least - 3 * (0.95 * 0.05 / len(samples)) ** 0.5
    if beta == 1:
        assert hits > plain_hits


# --- bootstrap -----------------------------------------------------------------------------------


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
