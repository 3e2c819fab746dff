import pytest

from fedcord.core.errors import PairingError
from fedcord.statistics.pairing import Outcome, pair


def outcomes(*rows: tuple[int, str, float]) -> list[Outcome]:
    return [Outcome(*row) for row in rows]


def test_values_are_aligned_by_seed_not_by_order() -> None:
    pairs = pair(
        outcomes((2, "p2", 0.2), (0, "p0", 0.0), (1, "p1", 0.1)),
        outcomes((1, "p1", 1.1), (2, "p2", 1.2), (0, "p0", 1.0)),
    )
    assert pairs.seeds == (0, 1, 2)
    assert pairs.first.tolist() == [0.0, 0.1, 0.2]
    assert pairs.second.tolist() == [1.0, 1.1, 1.2]


def test_different_partitions_are_named() -> None:
    with pytest.raises(
        PairingError, match=r"for seed 1, fedavg used partition aaa and moon .* bbb"
    ):
        pair(
            outcomes((0, "same", 0.1), (1, "aaa", 0.1)),
            outcomes((0, "same", 0.1), (1, "bbb", 0.1)),
            names=("fedavg", "moon"),
        )


def test_a_seed_on_one_side_only_is_named() -> None:
    with pytest.raises(PairingError, match="only moon has a result for seed 3, 4"):
        pair(
            outcomes((0, "p", 0.1)),
            outcomes((0, "p", 0.1), (4, "p", 0.1), (3, "p", 0.1)),
            names=("fedavg", "moon"),
        )


def test_a_seed_twice_is_refused() -> None:
    with pytest.raises(PairingError, match="the second has two results for seed 0"):
        pair(outcomes((0, "p", 0.1)), outcomes((0, "p", 0.1), (0, "p", 0.2)))


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(PairingError, match="no results to compare"):
        pair([], [])


def test_equal_index_lists_of_different_data_are_no_pair() -> None:
    ours, theirs = Outcome(0, "same", 0.1, "digits"), Outcome(0, "same", 0.2, "wine")
    with pytest.raises(
        PairingError, match=r"for seed 0, fedavg used data digits and moon data wine; .* same data"
    ):
        pair([ours], [theirs], names=("fedavg", "moon"))
    assert pair([ours], [Outcome(0, "same", 0.2, "digits")]).seeds == (0,)


def test_a_hash_that_was_not_recorded_pairs_with_anything() -> None:
    assert pair([Outcome(0, "same", 0.1)], [Outcome(0, "same", 0.2, "wine")]).seeds == (0,)


def test_shared_settings_are_bound_where_both_know_them() -> None:
    ours = Outcome(0, "same", 0.1, settings={"test": 0.1, "longtail": 1.0})
    with pytest.raises(PairingError, match=r"the first has longtail 1\.0 and the second 20\.0"):
        pair([ours], [Outcome(0, "same", 0.2, settings={"longtail": 20.0})])
    assert pair([ours], [Outcome(0, "same", 0.2, settings={"subset": 5})]).seeds == (0,)
