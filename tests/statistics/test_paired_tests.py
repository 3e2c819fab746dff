import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedcord.core.errors import PairingError
from fedcord.statistics.tests import paired_difference, sign_flip_p

# Student (1908): hours of sleep gained by ten patients under two drugs
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_students_sleep_data_give_the_textbook_values() -> None:
    found = paired_difference(SECOND, FIRST)
    assert found.mean == pytest.approx(1.58)
    assert found.t_p == pytest.approx(0.002833, abs=1e-6)
    assert found.interval.low == pytest.approx(0.7001142, abs=1e-6)
    assert found.interval.high == pytest.approx(2.4598858, abs=1e-6)
    assert found.effect_size == pytest.approx(1.2846, abs=1e-4)
    # nine of ten differences point up, one is zero: only the two one-sided patterns times the zero
    assert found.permutation_p == pytest.approx(4 / 1024)


def test_paired_t_agrees_with_scipy() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.8, 0.05, 6), rng.normal(0.78, 0.05, 6)
    expected = stats.ttest_rel(a, b)
    found = paired_difference(a, b, confidence=0.9)
    interval = expected.confidence_interval(0.9)
    assert found.t_p == pytest.approx(expected.pvalue, rel=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))


def test_sign_flip_agrees_with_scipy() -> None:
    differences = np.random.default_rng(8).normal(0.3, 1.0, 9)
    expected = stats.permutation_test(
        (differences, np.zeros(9)),
        lambda x, y: np.mean(x - y),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert sign_flip_p(differences) == pytest.approx(expected.pvalue)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_sign_flip_equals_the_loop_over_all_patterns(differences: list[int]) -> None:
    observed = abs(sum(differences))
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    as_far = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed
        for signs in patterns
    ]
    # tenths are not exact in binary: ties must still be ties
    found = sign_flip_p([d * 0.1 for d in differences])
    assert found == sum(as_far) / len(patterns)


def test_sign_flip_holds_its_level() -> None:
    samples = np.random.default_rng(6).laplace(0, 1, (1000, 8))
    rejected = np.mean([(sign_flip_p(sample) or 0) <= 0.05 for sample in samples])
    assert 0.02 < rejected < 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5


def test_sign_flip_is_absent_for_one_pair_and_for_many() -> None:
    assert sign_flip_p([1.0]) is None
    assert sign_flip_p(list(range(1, 17))) is None
    assert sign_flip_p(list(range(1, 16))) == 2 / 2**15


def test_many_pairs_say_that_the_exact_test_is_missing() -> None:
    found = paired_difference(list(range(16)), [0] * 16)
    assert found.permutation_p is None
    assert found.note == "n = 16: too many pairs for the exact sign-flip test"


def test_one_pair_shows_nothing_and_says_so() -> None:
    found = paired_difference([0.9], [0.8])
    assert found.mean == pytest.approx(0.1)
    assert (found.t_p, found.permutation_p, found.effect_size) == (None, None, None)
    assert found.note == "n = 1: one pair cannot show a difference"
    assert found.interval.reason == "n = 1, no interval"


def test_identical_results_say_so() -> None:
    found = paired_difference([0.9, 0.8, 0.7], [0.9, 0.8, 0.7])
    assert (found.mean, found.t_p, found.permutation_p) == (0.0, None, 1.0)
    assert found.note == "no difference in any of the 3 pairs"


def test_equal_differences_have_no_t_test_though_rounding_gives_them_spread() -> None:
    first, second = [0.9, 0.8, 0.3, 0.5], [0.8, 0.7, 0.2, 0.4]
    assert np.ptp(np.subtract(first, second)) > 0  # the trap
    found = paired_difference(first, second)
    assert (found.t_p, found.effect_size) == (None, None)
    assert found.permutation_p == 2 / 16
    assert found.note.startswith("all 4 differences are equal")
    assert not found.interval.has_interval


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_no_number_is_ever_nan(rows: list[tuple[float, float]]) -> None:
    found = paired_difference([a for a, _ in rows], [b for _, b in rows])
    numbers = [found.mean, found.t_p, found.permutation_p, found.effect_size]
    numbers += [found.interval.low, found.interval.high]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert found.t_p is not None or found.note


def test_a_spread_whose_square_vanishes_is_none() -> None:
    found = paired_difference([1e-200, 0.0], [0.0, 0.0])
    assert found.t_p is None
    assert found.note.startswith("all 2 differences are equal")


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(PairingError, match="2 values were compared with 3"):
        paired_difference([0.1, 0.2], [0.1, 0.2, 0.3])
