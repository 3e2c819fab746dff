"""Grouping of clients."""

from __future__ import annotations

import torch
from sklearn.metrics import silhouette_score

from fedcord.ops.kmeans import choose_groups, kmeans, silhouette


def clouds(centres: list[float], size: int = 6) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(len(centres) * size, 2, generator=g, dtype=torch.float64)
    return noise + torch.tensor(centres, dtype=torch.float64).repeat_interleave(size)[:, None]


def test_separate_clouds_are_found_with_their_number() -> None:
    groups = choose_groups(clouds([0.0, 5.0, 9.0]), most=5, seed=1)
    assert groups.tolist() == [0] * 6 + [1] * 6 + [2] * 6


def test_equal_points_and_single_points_are_one_group() -> None:
    assert choose_groups(torch.ones(8, 3, dtype=torch.float64), 4, 0).tolist() == [0] * 8
    assert choose_groups(torch.ones(1, 3, dtype=torch.float64), 4, 0).tolist() == [0]


def test_silhouette_is_that_of_scikit_learn() -> None:
    points = clouds([0.0, 0.4, 3.0])
    groups = kmeans(points, 3, seed=0)
    wanted = silhouette_score(points.numpy(), groups.numpy())
    assert abs(silhouette(points, groups) - wanted) < 1e-12


def test_same_seed_gives_the_same_groups() -> None:
    points = torch.rand(15, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.equal(kmeans(points, 4, seed=3), kmeans(points, 4, seed=3))
