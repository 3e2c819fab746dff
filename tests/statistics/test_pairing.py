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
