"""One difference over several studies."""

import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import PairingError
from fedcord.statistics import PairedDifference, stratified_difference

FIRST, SECOND = [0.1, 0.3, 0.2], [0.5, 0.9, 0.4, 0.6]


def test_one_study_is_the_paired_t_test() -> None:
    found = stratified_difference([FIRST])
    expected = stats.ttest_1samp(FIRST, 0.0)
    interval = expected.confidence_interval(0.95)
    assert found.t_p == pytest.approx(expected.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))


def test_two_studies_are_welchs_test_of_one_against_the_other_turned_round() -> None:
    """(a̅ + b̅)/2 is half of a̅ − (−b)̅, whose test for unequal variances is SciPy's."""
    found = stratified_difference([FIRST, SECOND])
    welch = stats.ttest_ind(FIRST, [-value for value in SECOND], equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert found.mean == pytest.approx((np.mean(FIRST) + np.mean(SECOND)) / 2)
    assert found.t_p == pytest.approx(welch.pvalue)
    ends = (interval.low / 2, interval.high / 2)
    assert (found.interval.low, found.interval.high) == pytest.approx(ends)
    assert found.permutation_p is None  # studies of unequal size


def test_how_studies_differ_is_not_noise() -> None:
    """Shifting one study changes the mean and nothing else."""
    near = stratified_difference([FIRST, FIRST])
    far = stratified_difference([FIRST, [value + 5 for value in FIRST]])

    def width(found: PairedDifference) -> float:
        assert found.interval.low is not None
        assert found.interval.high is not None
        return found.interval.high - found.interval.low

    assert width(far) == pytest.approx(width(near))
    assert far.mean == pytest.approx(near.mean + 2.5)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        strata = [generator.normal(level, spread, 3) for level, spread in ((1, 1), (0, 2), (-1, 3))]
        interval = stratified_difference([own.tolist() for own in strata]).interval
        assert interval.low is not None
        assert interval.high is not None
        hits += interval.low <= 0 <= interval.high
    assert 0.93 <= hits / 2000 <= 0.985


@pytest.mark.parametrize("strata", [[[0.1], FIRST], [[0.1, 0.1], [0.2, 0.2]]])
def test_without_spread_there_is_a_mean_but_no_interval(strata: list[list[float]]) -> None:
    found = stratified_difference(strata)
    assert found.mean == pytest.approx(np.mean([np.mean(own) for own in strata]))
    assert (found.t_p, found.interval.low) == (None, None)
    assert "no interval" in found.note


def test_no_study_is_refused() -> None:
    with pytest.raises(PairingError, match="at least one"):
        stratified_difference([])
