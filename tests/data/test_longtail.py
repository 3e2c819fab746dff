"""The long-tail filter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcord.core.errors import ConfigError
from fedcord.data.longtail import longtail_counts, longtail_pool


def test_prototype_11_3_golden() -> None:
    counts = longtail_counts(50_000, 10, 100)
    assert counts.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert counts.sum() == 12406


def test_whole_products_are_not_lost_to_rounding() -> None:
    # 1000 · 10^(-c) is whole for every class, 100 · (1/49)^(1/2) is 100/7
    assert longtail_counts(4000, 4, 1000).tolist() == [1000, 100, 10, 1]
    assert longtail_counts(3 * 343, 3, 49).tolist() == [343, 49, 7]


@pytest.mark.parametrize("ratio", [2, 3, 5, 7, 10, 50, 100, 200])
def test_last_class_is_the_first_divided_by_the_ratio(ratio: int) -> None:
    for num_classes in (2, 10, 100, 200):
        counts = longtail_counts(1400 * num_classes, num_classes, ratio)
        assert counts[0] == 1400
        assert counts[-1] == 1400 // ratio
        assert (np.diff(counts) <= 0).all()


def test_ratio_one_and_one_class_keep_everything() -> None:
    unbalanced = np.repeat(np.arange(3), [1, 50, 9])
    assert longtail_pool(unbalanced, num_classes=3, ratio=1, seed=0).tolist() == list(range(60))
    single = np.zeros(7, dtype=np.int64)
    assert longtail_pool(single, num_classes=1, ratio=50, seed=0).tolist() == list(range(7))


@settings(max_examples=50)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    ratio=st.floats(1, 1000),
    seed=st.integers(0, 2**40),
)
def test_keeps_what_it_says_and_changes_nothing(labels: list[int], ratio: float, seed: int) -> None:
    array = np.array(labels)
    array.setflags(write=False)
    pool = longtail_pool(array, num_classes=5, ratio=ratio, seed=seed)
    assert pool.dtype == np.int64
    assert (np.diff(pool) > 0).all()
    have = np.bincount(array, minlength=5)
    allowed = longtail_counts(len(labels), 5, ratio)
    expected = have if ratio == 1 else np.minimum(have, allowed)
    assert np.bincount(array[pool], minlength=5).tolist() == expected.tolist()
    assert np.array_equal(pool, longtail_pool(array, num_classes=5, ratio=ratio, seed=seed))


def test_another_seed_keeps_others() -> None:
    labels = np.arange(1000) % 2
    first, second = (longtail_pool(labels, num_classes=2, ratio=10, seed=s) for s in (0, 1))
    assert len(first) == len(second) == 550
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("ratio", [0.99, 0.0, -1.0, float("nan"), float("inf")])
def test_wrong_ratio(ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"longtail = .*: must be a finite number >= 1"):
        longtail_counts(100, 10, ratio)
