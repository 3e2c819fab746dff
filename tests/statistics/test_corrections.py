import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import NumericalError
from fedcord.statistics.corrections import holm


def test_holm_worked_example() -> None:
    # sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, then never decreasing
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_holm_leaves_out_tests_that_were_impossible() -> None:
    first, missing, last = holm([0.02, None, 0.04])
    assert missing is None
    assert (first, last) == pytest.approx((0.04, 0.04))


def test_holm_of_nothing_is_nothing() -> None:
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_lies_between_no_correction_and_bonferroni(p_values: list[float]) -> None:
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert adjusted is not None
        assert p <= adjusted <= min(1.0, len(p_values) * p) + 1e-15


def test_holm_refuses_what_is_not_a_probability() -> None:
    with pytest.raises(NumericalError, match=r"p-value of 1\.5"):
        holm([0.1, 1.5])
