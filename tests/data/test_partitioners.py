"""What each partition means, one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcord.core.errors import ConfigError, DataError
from fedcord.data.partition import Partition, make_partition
from fedcord.data.partitioners.nid1 import Nid1

TEN = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))


def _make(
    spec: str,
    labels: NDArray[np.int64] = TEN,
    *,
    num_classes: int = 10,
    clients: int = 10,
    seed: int = 0,
    longtail: float = 1.0,
) -> Partition:
    return make_partition(
        spec,
        labels,
        num_classes=num_classes,
        num_clients=clients,
        seed=seed,
        longtail=longtail,
    )


def _counts(partition: Partition) -> NDArray[np.int64]:
    return partition.counts(TEN, 10)


class TestDirichlet:
    def test_small_alpha_is_skewed_and_large_alpha_is_even(self) -> None:
        skewed, even = _counts(_make("dirichlet:0.01")), _counts(_make("dirichlet:100000"))
        assert (skewed.max(axis=0) > 80).sum() >= 8
        assert even.min() >= 8
        assert even.max() <= 12

    def test_min_is_kept_by_redraws(self) -> None:
        assert min(_make("dirichlet:0.3").sizes) < 40
        assert min(_make("dirichlet:0.3,min=40").sizes) >= 40

    def test_min_that_cannot_be_met_ends_with_advice(self) -> None:
        with pytest.raises(DataError, match="never had 101; lower min, raise alpha or use fewer"):
            _make("dirichlet:0.3,min=101")

    def test_proportions_follow_the_dirichlet_distribution(self) -> None:
        # Var(q) = (1/K)(1 - 1/K) / (K α + 1) over many classes
        labels = np.repeat(np.arange(400), 200)
        table = _make("dirichlet:0.5", labels, num_classes=400, clients=4).counts(labels, 400)
        assert np.allclose(table.mean(axis=1) / 200, 0.25, atol=0.05)
        assert np.isclose((table / 200).var(), 0.25 * 0.75 / 3, rtol=0.1)


class TestDirichletOverlap:
    def test_clients_share_examples_but_hold_none_twice(self) -> None:
        partition = _make("dirichlet-overlap:0.5", clients=3)
        assert partition.has_overlap
        assert sum(partition.sizes) > len(TEN)
        assert all(len(set(part.tolist())) == len(part) for part in partition.clients)

    def test_oneshot_2_5_class_0_is_the_measure_and_class_size_the_cap(self) -> None:
        labels = np.repeat(np.arange(3), [10, 1000, 4])
        table = _make("dirichlet-overlap:0.5", labels, num_classes=3, clients=3, seed=1).counts(
            labels, 3
        )
        q = np.random.RandomState(1).dirichlet([0.5] * 3, size=3).T
        expected = np.minimum(np.round(100 * q), [10, 1000, 4])
        assert np.array_equal(table, expected)

    def test_scale(self) -> None:
        sizes = _make("dirichlet-overlap:0.5,scale=0.5").sizes
        assert abs(sum(sizes) - 500) <= 50  # ten classes of 50, rounded ten times each

    def test_empty_class_0_is_refused(self) -> None:
        with pytest.raises(DataError, match="class 0, which has no example here; use dirichlet"):
            _make("dirichlet-overlap:0.5", np.ones(20, dtype=np.int64), clients=2)

    def test_vanishing_alpha_is_refused(self) -> None:
        with pytest.raises(DataError, match=r"too small for NumPy's legacy generator.*raise alpha"):
            _make("dirichlet-overlap:1e-300")


class TestNid1:
    def test_prototype_11_1_more_than_ten_clients_come_in_groups_of_ten(self) -> None:
        # 25 clients: groups of 10, 10 and 5 over consecutive pieces of the shuffled list
        partition = _make("nid1:0.5", clients=25)
        shuffled = np.concatenate([np.flatnonzero(np.equal(TEN, c)) for c in range(10)])
        np.random.RandomState(0).shuffle(shuffled)
        for clients, piece in (
            (partition.clients[:10], shuffled[:400]),
            (partition.clients[10:20], shuffled[400:800]),
            (partition.clients[20:], shuffled[800:]),
        ):
            assert set(np.concatenate(clients).tolist()) == set(piece.tolist())
        assert set(partition.sizes) == {40}

    def test_prototype_11_1_recut_false_keeps_unequal_sizes_of_at_least_ten(self) -> None:
        smallest = [min(_make("nid1:0.2,recut=false", seed=seed).sizes) for seed in range(10)]
        assert min(smallest) >= 10
        assert min(smallest) < 50  # with the re-cut, half of N/K would be asked for
        assert set(_make("nid1:0.5").sizes) == {100}

    def test_prototype_11_1_a_client_with_exactly_its_share_gets_nothing_more(self) -> None:
        class Scripted(np.random.RandomState):
            draws = iter([[1.0, 0.0], [0.5, 0.5]])

            def dirichlet(self, *_: object) -> NDArray[np.float64]:
                return np.array(next(self.draws))

        cuts = Nid1()._draw_cuts([4, 4], 2, Scripted())
        assert cuts is not None
        assert np.diff(cuts, axis=1).tolist() == [[4, 0], [0, 4]]

    def test_a_draw_that_is_never_accepted_ends_with_advice(self) -> None:
        labels = np.zeros(100, dtype=np.int64)
        with pytest.raises(DataError, match="never had 5; raise alpha, use fewer clients"):
            _make("nid1:0.01", labels, num_classes=1)

    def test_vanishing_alpha_ends_with_advice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fedcord.data.partitioners.partitioner.MAX_DRAWS", 20)
        with pytest.raises(DataError, match="raise alpha"):
            _make("nid1:1e-300")

    def test_empty_trailing_classes(self) -> None:
        labels = np.zeros(40, dtype=np.int64)
        assert set(_make("nid1:100", labels, num_classes=3, clients=4).sizes) == {10}


class TestNid2:
    def test_prototype_11_2_six_one_class_clients_and_one_with_all(self) -> None:
        table = _counts(_make("nid2", clients=7))
        biased, everything = table[:6], table[6]
        assert (biased > 0).sum(axis=1).tolist() == [1] * 6
        assert biased.sum(axis=1).tolist() == [50] * 6
        assert len(set(biased.argmax(axis=1).tolist())) == 6
        assert sorted(everything.tolist()) == [50] * 6 + [100] * 4

    def test_without_a_number_there_are_seven(self) -> None:
        assert _make("nid2", clients=0).num_clients == 7

    def test_biased_share(self) -> None:
        assert _make("nid2:0.29", clients=7).sizes[:6] == (29,) * 6

    def test_prototype_11_2_fewer_classes_than_biased_clients_repeat(self) -> None:
        labels = np.repeat(np.arange(2), 60)
        table = _make("nid2", labels, num_classes=2, clients=7).counts(labels, 2)
        assert (table[:6] > 0).sum(axis=1).tolist() == [1] * 6
        assert table[:6].sum(axis=0).tolist() == [30, 30]
        assert table[6].tolist() == [30, 30]


class TestShards:
    def test_two_shards_mean_few_classes_and_equal_sizes(self) -> None:
        table = _counts(_make("shards:2"))
        assert table.sum(axis=1).tolist() == [100] * 10
        assert (table > 0).sum(axis=1).max() <= 2

    def test_more_shards_than_examples(self) -> None:
        with pytest.raises(DataError, match="needs 1100 shards, but there are only 1000"):
            _make("shards:11", clients=100)


class TestClasses:
    @pytest.mark.parametrize(("per_client", "clients"), [(1, 10), (2, 5), (3, 7), (10, 4), (4, 9)])
    def test_n_classes_each_all_owned_and_shared_equally(
        self, per_client: int, clients: int
    ) -> None:
        table = _counts(_make(f"classes:{per_client}", clients=clients))
        assert (table > 0).sum(axis=1).tolist() == [per_client] * clients
        assert table.sum(axis=0).tolist() == [100] * 10
        for column in table.T:
            owned = column[column > 0]
            assert owned.max() - owned.min() <= 1
        owners = (table > 0).sum(axis=0)
        assert owners.max() - owners.min() <= 1

    def test_too_few_clients_leave_classes_out(self) -> None:
        table = _counts(_make("classes:2", clients=3))
        assert (table.sum(axis=0) > 0).sum() == 6

    def test_more_classes_than_there_are(self) -> None:
        labels = np.repeat([0, 2], 10)  # class 1 of 3 has no example
        with pytest.raises(DataError, match="only 2 classes have examples; ask for at most 2"):
            _make("classes:3", labels, num_classes=3, clients=2)


class TestQuantity:
    def test_sizes_differ_and_labels_do_not(self) -> None:
        labels = np.repeat(np.arange(2), 5000)
        partition = _make("quantity:0.5", labels, num_classes=2)
        assert max(partition.sizes) > 5 * min(partition.sizes)
        large = max(partition.clients, key=len)
        assert abs(float(labels[large].mean()) - 0.5) < 0.05

    def test_min(self) -> None:
        assert min(_make("quantity:0.5").sizes) < 20
        assert min(_make("quantity:0.5,min=20").sizes) >= 20
        with pytest.raises(DataError, match="never had 101; lower min, raise beta"):
            _make("quantity:0.5,min=101")


class TestLongtail:
    def test_in_the_text_and_as_argument_are_one(self) -> None:
        in_text = _make("dirichlet:0.5,longtail=10")
        as_argument = _make("dirichlet:0.5", longtail=10)
        assert in_text.spec == as_argument.spec == "dirichlet:0.5,longtail=10"
        assert in_text.hash == as_argument.hash
        assert _make("dirichlet:0.5,longtail=10", longtail=10).hash == in_text.hash
        assert in_text.hash != _make("dirichlet:0.5").hash

    def test_two_different_ones_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="says longtail=10, but longtail = 20 was asked for"):
            _make("iid,longtail=10", longtail=20)

    def test_argument_below_one_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"longtail = 0\.5: must be a finite number >= 1"):
            _make("iid", longtail=0.5)

    @pytest.mark.parametrize("spec", ["iid", "dirichlet:1", "shards:2", "classes:2", "nid2"])
    def test_prototype_11_3_composes_with_any(self, spec: str) -> None:
        table = _counts(_make(spec, longtail=100))
        assert table.sum(axis=0).tolist() == [100, 59, 35, 21, 12, 7, 4, 2, 1, 1]

    def test_more_clients_than_remain(self) -> None:
        with pytest.raises(DataError, match="243 clients were asked for, but there are only 242"):
            _make("iid,longtail=100", clients=243)


class TestIidExamples:
    def test_sizes_stay_and_classes_are_random(self) -> None:
        skewed, control = _make("dirichlet:0.05"), _make("dirichlet:0.05,examples=iid")
        assert control.sizes == skewed.sizes
        assert control.hash != skewed.hash
        held = np.sort(np.concatenate(control.clients))
        assert np.array_equal(held, np.sort(np.concatenate(skewed.clients)))
        table = _counts(control)
        large = table[table.sum(axis=1) > 100]
        shares = large / large.sum(axis=1, keepdims=True)
        assert abs(shares - 0.1).max() < 0.06
        assert (
            _counts(skewed) / np.maximum(1, _counts(skewed).sum(axis=1, keepdims=True))
        ).max() > 0.5

    def test_only_what_was_given_out_is_redistributed(self) -> None:
        some, control = _make("classes:1", clients=4), _make("classes:1,examples=iid", clients=4)
        assert set(np.concatenate(control.clients)) == set(np.concatenate(some.clients))
        assert len(np.concatenate(some.clients)) == 400

    def test_another_seed_gives_other_examples(self) -> None:
        one, two = _make("iid,examples=iid", seed=1), _make("iid,examples=iid", seed=2)
        assert one.sizes == two.sizes
        assert one.hash != two.hash

    def test_names_do_not_stay_with_examples_of_others(self) -> None:
        labels = np.arange(12) % 2
        parts = {
            spec: make_partition(
                spec,
                labels,
                num_classes=2,
                num_clients=0,
                seed=0,
                groups={"site": np.arange(12) // 5},
                group_names={"site": ("North", "South", "West")},
            )
            for spec in ("natural:site", "natural:site,examples=iid")
        }
        named, control = parts.values()
        assert named.client_names == ("North", "South", "West")
        assert control.client_names == ()
        assert control.sizes == named.sizes == (5, 5, 2)

    def test_overlap_is_refused(self) -> None:
        with pytest.raises(DataError, match="some hold the same examples; use a partition without"):
            _make("dirichlet-overlap:0.5,examples=iid")


class TestNatural:
    def test_one_client_per_value(self) -> None:
        site = np.array([5, 3, 5, 9, 3, 5])
        partition = make_partition(
            "natural:site",
            np.zeros(6, dtype=np.int64),
            num_classes=1,
            num_clients=0,
            seed=0,
            groups={"site": site},
        )
        assert [part.tolist() for part in partition.clients] == [[1, 4], [0, 2, 5], [3]]

    def test_longtail_does_not_renumber_clients(self) -> None:
        labels = np.repeat(np.arange(2), 50)
        partition = make_partition(
            "natural:site,longtail=100",
            labels,
            num_classes=2,
            num_clients=2,
            seed=0,
            groups={"site": 1 - labels},
        )
        assert partition.sizes == (0, 50)

    def test_errors(self) -> None:
        labels = np.zeros(4, dtype=np.int64)
        groups = {"site": np.arange(4)}

        def make(spec: str, clients: int, groups: dict[str, NDArray[np.int64]]) -> Partition:
            return make_partition(
                spec, labels, num_classes=1, num_clients=clients, seed=0, groups=groups
            )

        with pytest.raises(DataError, match=r"makes 4 clients.*but 3 were asked for.*or say 4"):
            make("natural:site", 3, groups)
        with pytest.raises(DataError, match="unknown group 'sit'; did you mean 'site'"):
            make("natural:sit", 0, groups)
        with pytest.raises(DataError, match="carry groups, and this one has none"):
            make("natural:site", 0, {})


def test_no_partition_touches_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _make("nid1:0.5")
    assert list(tmp_path.iterdir()) == []
