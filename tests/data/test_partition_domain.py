"""One domain per client."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.partition import Partition, make_partition

DIGITS = ("mnist", "usps", "svhn", "syn")
OFFICE = ("amazon", "caltech", "dslr", "webcam")


def _make(
    spec: str, names: tuple[str, ...], sizes: list[int], clients: int, seed: int = 0
) -> tuple[Partition, NDArray[np.int64]]:
    domain = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    partition = make_partition(
        spec,
        np.zeros(len(domain), dtype=np.int64),
        num_classes=1,
        num_clients=clients,
        seed=seed,
        groups={"domain": domain},
        group_names={"domain": names},
    )
    return partition, domain


def _clients_of(partition: Partition, domain: NDArray[np.int64]) -> list[int]:
    """How many clients each domain has; also checks that no client mixes domains."""
    own = [set(domain[part].tolist()) for part in partition.clients]
    assert all(len(domains) == 1 for domains in own)
    counts: list[int] = np.bincount([domains.pop() for domains in own]).tolist()
    return counts


@pytest.mark.parametrize("clients", [20, 0])
@pytest.mark.parametrize("last", ["syn", "mnist-m", "SYN"])
def test_prototype_11_4_digits(clients: int, last: str) -> None:
    partition, domain = _make("domain", (*DIGITS[:3], last), [1000, 700, 800, 500], clients)
    assert _clients_of(partition, domain) == [3, 6, 6, 5]
    assert sorted(partition.sizes) == [5] * 5 + [7] * 6 + [8] * 6 + [10] * 3
    assert not partition.has_overlap


@pytest.mark.parametrize("clients", [10, 0])
def test_prototype_11_4_office(clients: int) -> None:
    partition, domain = _make("domain", OFFICE, [958, 1123, 157, 295], clients)
    assert _clients_of(partition, domain) == [2, 3, 4, 1]
    assert sorted(partition.sizes) == [31] * 4 + [59] + [191] * 2 + [224] * 3
    assert not partition.has_overlap


def test_prototype_11_4_client_order_is_a_seeded_permutation() -> None:
    orders = set()
    for seed in range(4):
        partition, domain = _make("domain", OFFICE, [100] * 4, 10, seed)
        orders.add(tuple(int(domain[part[0]]) for part in partition.clients))
    assert len(orders) == 4


def test_prototype_11_4_draws_within_a_domain_are_random() -> None:
    drawn = {_make("domain,share=0.5", ("one",), [100], 1, seed)[0].hash for seed in range(3)}
    assert len(drawn) == 3


def test_otherwise_as_even_as_possible_and_everything_is_used() -> None:
    partition, domain = _make("domain", OFFICE, [40, 41, 42, 43], 11)
    assert _clients_of(partition, domain) == [3, 3, 3, 2]
    assert sum(partition.sizes) == 166
    for number in range(4):
        sizes = [len(part) for part in partition.clients if domain[part[0]] == number]
        assert max(sizes) - min(sizes) <= 1


def test_without_names_or_number_one_client_per_domain() -> None:
    partition, domain = _make("domain", (), [5, 6, 7], 0)
    assert _clients_of(partition, domain) == [1, 1, 1]
    assert sorted(partition.sizes) == [5, 6, 7]


def test_allocation_and_share() -> None:
    spec = "domain,allocation=usps:2/mnist:1/syn:0,share=0.1"
    partition, domain = _make(spec, DIGITS, [50, 60, 70, 80], 3)
    assert _clients_of(partition, domain) == [1, 2]
    assert sorted(partition.sizes) == [5, 6, 6]
    assert partition.spec == spec


def test_share_with_the_published_allocation() -> None:
    partition, _ = _make("domain,share=0.1", OFFICE, [100] * 4, 10)
    assert set(partition.sizes) == {10}


def test_a_tiny_share_still_gives_one_example() -> None:
    partition, _ = _make("domain,share=0.001", OFFICE, [100] * 4, 10)
    assert set(partition.sizes) == {1}


def test_share_that_asks_for_too_much() -> None:
    with pytest.raises(DataError, match=r"share = 0\.3 .* the 4 clients of domain 'dslr' .* 1/4"):
        _make("domain,share=0.3", OFFICE, [100, 100, 100, 100], 10)


def test_more_clients_than_the_domain_has_examples() -> None:
    with pytest.raises(DataError, match="'dslr' has 3 training examples for 4 clients"):
        _make("domain", OFFICE, [100, 100, 3, 100], 10)


def test_fewer_clients_than_domains() -> None:
    with pytest.raises(DataError, match=r"3 clients cannot cover the 4 domains.*allocation="):
        _make("domain", OFFICE, [10] * 4, 3)


def test_unknown_domain_in_the_allocation() -> None:
    with pytest.raises(DataError, match="unknown domain 'mnits'; did you mean 'mnist'"):
        _make("domain,allocation=mnits:2", DIGITS, [10] * 4, 2)


@pytest.mark.parametrize(
    ("allocation", "words"),
    [
        ("mnist", "entry 'mnist' is not NAME:COUNT; write it as mnist:3/usps:6"),
        ("mnist:-1", "entry 'mnist:-1' is not NAME:COUNT"),
        (":3", "entry ':3' is not NAME:COUNT"),
        ("mnist:1/mnist:2", "names 'mnist' twice"),
        ("mnist:0", "has no client"),
        ("mnist:2/usps:2", "is for 4 clients, but 3 were asked for"),
    ],
)
def test_allocation_that_cannot_be_read(allocation: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        _make(f"domain,allocation={allocation}", DIGITS, [10] * 4, 3)


def test_data_without_domains() -> None:
    with pytest.raises(DataError, match=r"carry a domain.*groups of this one: site"):
        make_partition(
            "domain",
            np.zeros(4, dtype=np.int64),
            num_classes=1,
            num_clients=2,
            seed=0,
            groups={"site": np.arange(4)},
        )


def test_clients_are_called_by_their_domain() -> None:
    partition, domain = _make("domain", ("Köln", "北京"), [20, 20], 3)
    assert sorted(partition.client_names) == ["Köln 1", "Köln 2", "北京"]
    for name, part in zip(partition.client_names, partition.clients, strict=True):
        assert ("Köln", "北京")[domain[part[0]]] == name.split()[0]
