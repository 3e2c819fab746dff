"""Numbers about members against definitions written out one entry at a time."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from fedcord.algorithms.oneshot import metrics
from fedcord.algorithms.oneshot.member import Member


def member(seed: int, counts: tuple[int, ...] = (3, 2, 1)) -> Member:
    generator = torch.Generator().manual_seed(seed)
    model = {
        "layer.weight": torch.randn(2, 3, generator=generator),
        "norm.running_mean": 100 * torch.randn(2, generator=generator),
        "norm.num_batches_tracked": torch.tensor(seed),
    }
    prototypes = torch.randn(len(counts), 4, generator=generator)
    return Member(model, prototypes, torch.tensor(counts).float(), float(sum(counts)))


TRAINED = {"layer.weight", "head.weight"}


def test_stds_agree_with_the_statistics_module() -> None:
    members = [member(seed) for seed in range(3)]
    rows = [m.prototypes.double().flatten().tolist() for m in members]
    mean = [statistics.fmean(column) for column in zip(*rows, strict=True)]
    assert metrics.g_protos_std(members) == pytest.approx(statistics.stdev(mean))
    spread = statistics.fmean(statistics.stdev(column) for column in zip(*rows, strict=True))
    assert metrics.inter_client_proto_std(members) == pytest.approx(spread)
    size = math.sqrt(statistics.fmean(x * x for row in rows for x in row))
    assert metrics.proto_dispersion(members) == pytest.approx(spread / size)


def test_model_std_takes_parameters_and_prototypes_only() -> None:
    members = [member(seed) for seed in range(3)]
    rows = [
        m.model["layer.weight"].flatten().tolist() + m.prototypes.flatten().tolist()
        for m in members
    ]
    spreads = [statistics.stdev(column) for column in zip(*rows, strict=True)]
    mean, total = metrics.model_std(members, TRAINED)
    assert mean == pytest.approx(statistics.fmean(spreads), rel=1e-5)
    assert total == pytest.approx(sum(spreads), rel=1e-5)


def test_cosine_counts_only_pairs_that_both_hold_the_class() -> None:
    members = [member(0, (3, 0, 1)), member(1, (2, 5, 1)), member(2, (0, 1, 4))]
    holders = {0: (0, 1), 1: (1, 2), 2: (0, 1, 2)}
    cosines = []
    for c, clients in holders.items():
        for i in clients:
            for k in clients:
                if i < k:
                    a, b = members[i].prototypes[c].double(), members[k].prototypes[c].double()
                    cosines.append(float(a @ b / (a.norm() * b.norm())))
    assert len(cosines) == 5
    assert metrics.proto_cosine(members) == pytest.approx(statistics.fmean(cosines))


def test_anchor_cosine() -> None:
    members = [member(0), member(1)]
    anchors = torch.eye(3, 4)
    each = [
        float(m.prototypes[c, c].double() / m.prototypes[c].double().norm())
        for m in members
        for c in range(3)
    ]
    assert metrics.anchor_cosine(members, anchors) == pytest.approx(statistics.fmean(each))


def test_invariant_30_right_after_init_clients_do_not_differ() -> None:
    found = metrics.measure([member(0)] * 4, TRAINED)
    assert found["inter_client_proto_std"] == 0
    assert found["model_std_mean"] == found["model_std_sum"] == 0
    assert found["proto_cosine"] == pytest.approx(1)
    assert found["g_protos_std"] == pytest.approx(float(member(0).prototypes.double().std()))


def test_invariant_31_one_client_gives_zero_and_no_nan() -> None:
    found = metrics.measure([member(0)], TRAINED, torch.eye(3, 4))
    assert all(math.isfinite(value) for value in found.values())
    zero = ("inter_client_proto_std", "proto_dispersion", "model_std_mean", "proto_cosine")
    assert [found[name] for name in zero] == [0, 0, 0, 0]
