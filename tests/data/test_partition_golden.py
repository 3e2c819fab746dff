"""Published partitions, example count by example count."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcord.data.partition import make_partition
from fedcord.data.partitioners.nid1 import Nid1

CIFAR10 = np.repeat(np.arange(10), 5000)

SEED_25 = [
    [7, 138, 586, 510, 0, 0, 0, 0, 0, 0],
    [436, 25, 182, 151, 96, 238, 66, 9, 15, 23],
    [1241, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [655, 83, 33, 266, 204, 0, 0, 0, 0, 0],
    [574, 520, 0, 0, 147, 0, 0, 0, 0, 0],
    [888, 353, 0, 0, 0, 0, 0, 0, 0, 0],
    [960, 280, 0, 0, 0, 0, 0, 0, 0, 0],
    [168, 663, 320, 37, 1, 51, 0, 0, 0, 0],
    [63, 779, 398, 0, 0, 0, 0, 0, 0, 0],
    [8, 156, 277, 113, 197, 98, 166, 130, 68, 27],
]


def _scattered() -> NDArray[np.int64]:
    """CIFAR-10's labels in an order of their own, as the real files have them."""
    return np.random.default_rng(7).permutation(CIFAR10)


def _counts(spec: str, labels: NDArray[np.int64], num_clients: int, seed: int) -> list[list[int]]:
    partition = make_partition(spec, labels, num_classes=10, num_clients=num_clients, seed=seed)
    rows: list[list[int]] = partition.counts(labels, 10).tolist()
    return rows


@pytest.mark.parametrize("labels", [CIFAR10, _scattered()], ids=["in class order", "scattered"])
def test_prototype_11_1_golden_seed_25(labels: NDArray[np.int64]) -> None:
    assert _counts("nid1:0.5,longtail=100", labels, 10, 25) == SEED_25


def test_prototype_11_1_golden_seed_536() -> None:
    rows = _counts("nid1:0.5,longtail=100", _scattered(), 10, 536)
    assert rows[0] == [1175, 0, 66, 0, 0, 0, 0, 0, 0, 0]
    assert rows[9] == [175, 189, 216, 23, 342, 93, 5, 119, 60, 18]


@pytest.mark.parametrize(("seed", "draws"), [(25, 2), (536, 4)])
def test_prototype_11_1_accepts_at_the_published_draw(
    seed: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[None] = []
    original = Nid1._draw_cuts

    def counting(*args: object) -> object:
        seen.append(None)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Nid1, "_draw_cuts", counting)
    _counts("nid1:0.5,longtail=100", CIFAR10, 10, seed)
    assert len(seen) == draws


def test_prototype_11_1_examples_follow_a_shuffled_list_cut_class_by_class() -> None:
    # a slow re-derivation with Python lists, N=60, K=4
    labels = np.array([0, 1, 2] * 20)
    rs = np.random.RandomState(3)
    items = [(i, int(label)) for i, label in sorted(enumerate(labels), key=lambda pair: pair[1])]
    rs.shuffle(items)
    while True:
        buckets: list[list[int]] = [[] for _ in range(4)]
        for c in range(3):
            members = [index for index, label in items if label == c]
            p = rs.dirichlet([0.5] * 4)
            p = np.array([0 if len(b) >= 15 else q for b, q in zip(buckets, p, strict=True)])
            cuts = [0, *(int(x) for x in (np.cumsum(p / p.sum()) * 20)[:-1]), 20]
            for j in range(4):
                buckets[j] += members[cuts[j] : cuts[j + 1]]
        if min(len(bucket) for bucket in buckets) >= 7:
            break
    flat = [index for bucket in buckets for index in bucket]
    expected = [sorted(flat[k * 15 : (k + 1) * 15]) for k in range(4)]
    partition = make_partition("nid1:0.5", labels, num_classes=3, num_clients=4, seed=3)
    assert [part.tolist() for part in partition.clients] == expected
    plain = make_partition("nid1:0.5,recut=false", labels, num_classes=3, num_clients=4, seed=3)
    assert [part.tolist() for part in plain.clients] == [sorted(bucket) for bucket in buckets]


@pytest.mark.parametrize(
    ("alpha", "sizes"),
    [
        ("0.05", (30000, 6972, 5894, 24217, 15612)),
        ("0.1", (25047, 6905, 20723, 25839, 20002)),
        ("0.3", (19508, 31826, 35794, 22984, 25735)),
        ("0.5", (39296, 32237, 30057, 36893, 20405)),
    ],
)
def test_oneshot_2_5_golden_sizes(alpha: str, sizes: tuple[int, ...]) -> None:
    labels = _scattered()
    partition = make_partition(
        f"dirichlet-overlap:{alpha}", labels, num_classes=10, num_clients=5, seed=1
    )
    assert partition.sizes == sizes


def test_prototype_11_3_golden_counts_survive_the_partition() -> None:
    labels = _scattered()
    partition = make_partition("iid", labels, num_classes=10, num_clients=1, seed=0, longtail=100)
    expected = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert partition.counts(labels, 10).tolist() == [expected]
    assert sum(partition.sizes) == 12406
