"""The numbers of `fedcord inspect`, against SciPy and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedcord.core.errors import DataError
from fedcord.data import heterogeneity
from fedcord.data.heterogeneity import measure_heterogeneity

TABLES = arrays(
    np.int64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.one_of(st.just(0), st.integers(0, 500)),
).filter(lambda table: bool(table.sum() > 0))


@settings(max_examples=100)
@given(counts=TABLES)
def test_agrees_with_scipy(counts: NDArray[np.int64]) -> None:
    report = measure_heterogeneity(counts)
    overall = counts.sum(axis=0) / counts.sum()
    held = []
    for k, row in enumerate(counts):
        client = report.clients[k]
        assert client.size == row.sum()
        if client.size == 0:
            assert (client.earth_movers, client.jensen_shannon) == (None, None)
            continue
        p = row / row.sum()
        held.append(p)
        entropy = scipy.stats.entropy(p, base=2)
        assert client.num_classes == (row > 0).sum()
        assert client.entropy_bits == pytest.approx(entropy, abs=1e-12)
        assert client.effective_classes == pytest.approx(2**entropy)
        if len(row) > 1:
            assert client.entropy_normalized == pytest.approx(entropy / np.log2(len(row)))
        assert client.earth_movers == pytest.approx(np.abs(p - overall).sum(), abs=1e-12)
        distance = scipy.spatial.distance.jensenshannon(p, overall, base=2)
        assert client.jensen_shannon == pytest.approx(np.nan_to_num(distance), abs=2e-7)
    pairs = [(p, q) for i, p in enumerate(held) for q in held[:i]]
    if pairs:
        distances = [
            np.nan_to_num(scipy.spatial.distance.jensenshannon(p, q, base=2)) for p, q in pairs
        ]
        movers = [np.abs(p - q).sum() for p, q in pairs]
        assert report.pairwise_jensen_shannon == pytest.approx(np.mean(distances), abs=2e-7)
        assert report.pairwise_earth_movers == pytest.approx(np.mean(movers), abs=1e-12)
    sizes = counts.sum(axis=1).astype(float)
    gini = np.abs(sizes[:, None] - sizes[None, :]).mean() / (2 * sizes.mean())
    assert report.size_gini == pytest.approx(gini, abs=1e-12)


def test_equal_clients_have_no_distance() -> None:
    report = measure_heterogeneity(np.array([[10, 20, 30]] * 4))
    assert report.mean_earth_movers == 0
    assert report.mean_jensen_shannon == 0
    assert report.pairwise_earth_movers == 0
    assert report.pairwise_jensen_shannon == 0
    assert report.size_gini == 0
    assert report.warnings == ()


def test_disjoint_clients_have_the_largest_distance() -> None:
    report = measure_heterogeneity(np.diag([7, 7, 7]))
    assert report.pairwise_earth_movers == pytest.approx(2)
    assert report.pairwise_jensen_shannon == pytest.approx(1)
    assert report.mean_earth_movers == pytest.approx(4 / 3)
    assert report.mean_entropy_bits == 0
    assert report.mean_effective_classes == 1
    assert report.single_class_clients == (0, 1, 2)


def test_lists_and_warnings() -> None:
    counts = np.zeros((10, 4), dtype=np.int64)
    counts[0] = [500, 300, 2, 0]
    counts[3:6, 1] = 5
    counts[9] = [1, 1, 1, 0]
    report = measure_heterogeneity(counts)
    assert report.num_clients == 10
    assert report.num_classes == 4
    assert report.num_held == 820
    assert report.empty_clients == (1, 2, 6, 7, 8)
    assert report.single_class_clients == (3, 4, 5)
    assert report.absent_classes == (3,)
    assert [warning.split(":")[0] for warning in report.warnings] == [
        "5 of 10 clients hold no examples (1, 2, 6, 7, 8)",
        "3 of 10 clients hold a single class (3, 4, 5)",
        "nobody holds an example of class 3",
        "client 0 holds more than half of all examples (802 of 820)",
    ]


def test_long_lists_are_shortened() -> None:
    report = measure_heterogeneity(np.eye(8, dtype=np.int64))
    assert "8 of 8 clients hold a single class (0, 1, 2, 3, 4 and 3 more)" in report.warnings[0]


def test_one_class_in_all_is_not_a_warning() -> None:
    report = measure_heterogeneity(np.array([[4], [6]]))
    assert report.single_class_clients == ()
    assert report.warnings == ()
    assert report.clients[0].entropy_normalized == 0


@given(counts=TABLES)
@settings(max_examples=30)
def test_json_is_plain_and_complete(counts: NDArray[np.int64]) -> None:
    stored = json.loads(json.dumps(measure_heterogeneity(counts).to_json(), allow_nan=False))
    assert [client["size"] for client in stored["clients"]] == counts.sum(axis=1).tolist()
    assert set(stored) >= {"warnings", "size_gini", "mean_jensen_shannon", "empty_clients"}


def test_many_clients_are_paired_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heterogeneity, "MAX_PAIRED", 3)
    counts = np.array([[1, 0], [9, 9], [0, 1], [9, 9], [1, 0]])  # 0, 2 and 4 are taken
    report = measure_heterogeneity(counts)
    assert report.num_paired == 3
    assert report.pairwise_earth_movers == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "counts", [np.ones(3), np.ones((0, 3)), np.ones((3, 0)), np.zeros((2, 2)), np.array([[-1, 5]])]
)
def test_what_is_not_a_table(counts: NDArray[np.int64]) -> None:
    with pytest.raises(DataError, match="is not a client × class table; give counts"):
        measure_heterogeneity(counts.astype(np.int64))


def test_warnings_name_clients_and_classes() -> None:
    counts = np.array([[9, 0, 0], [0, 0, 0], [1, 1, 0]])
    told = measure_heterogeneity(counts, ("Köln", "北京", "Aarau"), ("gesund", "krank", "tot"))
    words = " ".join(told.warnings)
    for part in (
        "no examples ('北京' (1))",
        "single class ('Köln' (0))",
        "class tot:",
        "client 'Köln' (0) holds more",
    ):
        assert part in words
