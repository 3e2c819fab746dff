"""The random part of the training examples."""

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data.partition import make_partition
from fedcord.data.subset import subset_pool

LABELS = np.arange(1000, dtype=np.int64) % 10


def test_all_stay_without_a_size() -> None:
    assert subset_pool(7, size=None, seed=0).tolist() == list(range(7))


def test_the_seed_decides_which_stay() -> None:
    first, again, other = (subset_pool(1000, size=100, seed=s) for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first)) == 100
    assert np.all(np.diff(first) > 0)


def test_every_example_is_equally_likely() -> None:
    drawn = np.bincount(
        np.concatenate([subset_pool(20, size=5, seed=s) for s in range(2000)]), minlength=20
    )
    assert abs(drawn - 500).max() < 100  # five standard deviations


@pytest.mark.parametrize("size", [0, 1001])
def test_a_size_the_data_does_not_have_is_refused(size: int) -> None:
    with pytest.raises(DataError, match="1 to 1000"):
        subset_pool(1000, size=size, seed=0)


def test_a_partition_deals_out_the_subset_and_nothing_else() -> None:
    partition = make_partition(
        "dirichlet:0.5", LABELS, num_classes=10, num_clients=4, seed=3, subset=200
    )
    dealt = np.sort(np.concatenate(partition.clients))
    assert np.array_equal(dealt, subset_pool(1000, size=200, seed=3))


def test_the_long_tail_thins_what_the_subset_left() -> None:
    partition = make_partition(
        "iid", LABELS, num_classes=10, num_clients=2, seed=0, subset=500, longtail=10.0
    )
    counts = partition.counts(LABELS, 10).sum(0)
    assert counts[0] >= 45
    assert counts[9] == 5
