"""Robust middles against NumPy and SciPy, and by how many wrong points they withstand."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from torch import Tensor

from fedcord.ops.robust_means import (
    coordinate_median,
    geometric_median,
    krum_order,
    shortened,
    squared_distances,
    trimmed_mean,
)

FAR = 1e9


def _points(count: int, dim: int = 5, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 2, 7, 10])
def test_median_is_that_of_numpy(count: int) -> None:
    points = _points(count)
    assert np.array_equal(coordinate_median(points).numpy(), np.median(points.numpy(), axis=0))


@pytest.mark.parametrize("trimmed", [0, 1, 3])
def test_trimmed_mean_is_that_of_scipy(trimmed: int) -> None:
    points = _points(10)
    expected = scipy.stats.trim_mean(points.numpy(), trimmed / 10, axis=0)
    assert np.allclose(trimmed_mean(points, trimmed).numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("count", [3, 4, 9])
def test_geometric_median_is_the_least_sum_of_distances(count: int) -> None:
    points = _points(count, dim=3, seed=count).numpy()

    def total(middle: np.ndarray) -> float:
        return float(np.linalg.norm(points - middle, axis=1).sum())

    options = {"xatol": 1e-12, "fatol": 1e-14, "maxiter": 10_000, "maxfev": 10_000}
    best = scipy.optimize.minimize(total, points.mean(0), method="Nelder-Mead", options=options)
    found = geometric_median(torch.from_numpy(points)).numpy()
    assert total(found) <= best.fun + 1e-9
    assert np.allclose(found, best.x, atol=1e-5)


def test_geometric_median_stays_at_a_point_that_most_are() -> None:
    points = torch.cat([torch.ones(3, 2, dtype=torch.float64), _points(2, dim=2)])
    assert torch.equal(geometric_median(points), torch.ones(2, dtype=torch.float64))


def test_krum_order_equals_a_slow_loop() -> None:
    points, bad = _points(9), 2
    scores = []
    for i, own in enumerate(points.tolist()):
        others = [math.dist(own, other) ** 2 for j, other in enumerate(points.tolist()) if j != i]
        scores.append(sum(sorted(others)[: 9 - bad - 2]))
    assert krum_order(points, bad).tolist() == sorted(range(9), key=scores.__getitem__)


def test_distances_are_those_of_close_points_far_away() -> None:
    points = torch.tensor([[1e8, 0.0], [1e8, 1e-3]], dtype=torch.float64)
    assert float(squared_distances(points)[0, 1]) == pytest.approx(1e-6)


def _with_bad(honest: Tensor, bad: int, value: float = FAR) -> Tensor:
    """The last `bad` rows replaced by points that collude far away."""
    points = honest.clone()
    points[len(points) - bad :] = value
    return points


def _leaves_range(found: Tensor, honest: Tensor) -> bool:
    return bool(((found < honest.min(0).values) | (found > honest.max(0).values)).any())


@pytest.mark.parametrize("value", [FAR, -FAR])
def test_median_holds_below_half_and_breaks_at_half(value: float) -> None:
    points = _points(10)
    assert not _leaves_range(coordinate_median(_with_bad(points, 4, value)), points[:6])
    assert abs(float(coordinate_median(_with_bad(points, 5, value))[0])) > FAR / 10


@pytest.mark.parametrize("value", [FAR, -FAR])
def test_trimmed_mean_holds_for_as_many_as_it_trims_and_no_more(value: float) -> None:
    points = _points(10)
    assert not _leaves_range(trimmed_mean(_with_bad(points, 2, value), 2), points[:8])
    assert abs(float(trimmed_mean(_with_bad(points, 3, value), 2)[0])) > FAR / 10


@pytest.mark.parametrize("bad", [1, 3, 4])
def test_geometric_median_stays_within_its_known_bound_and_breaks_above_half(bad: int) -> None:
    points = _points(10)
    centre = points[: 10 - bad].mean(0)
    radius = float((points[: 10 - bad] - centre).norm(dim=1).max())
    share = bad / 10
    bound = (1 - share) / math.sqrt(1 - 2 * share) * radius  # Minsker 2015, lemma 2.1
    assert float((geometric_median(_with_bad(points, bad)) - centre).norm()) <= bound
    assert float(geometric_median(_with_bad(points, 6)).min()) == pytest.approx(FAR)


def test_krum_takes_an_honest_point_until_the_bad_are_each_others_neighbours() -> None:
    bad = 3
    count = 2 * bad + 3
    points = _points(count)
    for colluding in (bad, bad + 1):
        order = krum_order(_with_bad(points, colluding), bad).tolist()
        assert set(order[: count - colluding]) == set(range(count - colluding))
    assert int(krum_order(_with_bad(points, bad + 2), bad)[0]) >= count - (bad + 2)


def test_shortened_bounds_what_anyone_can_do_and_leaves_the_short_alone() -> None:
    changes = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    found = shortened(changes, 1.0)
    assert torch.allclose(found[0], torch.tensor([0.6, 0.8], dtype=torch.float64))
    assert torch.equal(found[1:], changes[1:])
