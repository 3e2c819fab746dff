"""Two one-sided tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcord.core.errors import ConfigError
from fedcord.statistics import equivalence


def test_it_is_the_larger_of_two_one_sided_t_tests() -> None:
    values = [0.011, -0.004, 0.006, 0.013, 0.002]
    found = equivalence([values], 0.02)
    above = stats.ttest_1samp(values, -0.02, alternative="greater").pvalue
    below = stats.ttest_1samp(values, 0.02, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below))
    low, high = stats.t.interval(0.9, 4, np.mean(values), stats.sem(values))
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.is_shown


@pytest.mark.parametrize("margin", [0.0135, 0.013])
def test_it_is_shown_when_the_interval_lies_within(margin: float) -> None:
    found = equivalence([[0.011, -0.004, 0.006, 0.013, 0.002], [0.01, 0.004, 0.008]], margin)
    assert found.interval.low is not None
    assert found.interval.high is not None
    inside = -margin < found.interval.low and found.interval.high < margin
    assert found.is_shown == inside


def test_a_large_difference_and_a_wide_one_are_not_small() -> None:
    assert not equivalence([[0.05, 0.051, 0.052]], 0.02).is_shown
    assert not equivalence([[0.05, -0.05, 0.0]], 0.02).is_shown
    alone = equivalence([[0.0]], 0.02)
    assert alone.p is None
    assert not alone.is_shown


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(ConfigError, match="must be above zero"):
        equivalence([[0.1, 0.2]], margin)
