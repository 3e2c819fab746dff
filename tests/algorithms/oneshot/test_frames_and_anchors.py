"""Anchors: the simplex exactly, the same everywhere, and clear words where there is none."""

from __future__ import annotations

import math

import pytest
import torch

from fedcord.algorithms.oneshot.anchors import Anchors
from fedcord.algorithms.oneshot.frames import (
    low_coherence_frame,
    random_frame,
    simplex_frame,
    welch_bound,
)
from fedcord.core.errors import ConfigError
from tests.federation import env as make_env


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("c", "d"), [(10, 512), (100, 512), (5, 4), (2, 1), (3, 8), (10, 9)])
def test_invariant_1_gram_of_the_simplex(c: int, d: int) -> None:
    a = simplex_frame(c, d, generator()).double()
    assert a.shape == (c, d)
    gram = c / (c - 1) * (torch.eye(c) - torch.ones(c, c) / c).double()
    torch.testing.assert_close(a @ a.T, gram, atol=1e-5, rtol=0)
    torch.testing.assert_close(a.norm(dim=1), torch.ones(c).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(a.sum(0), torch.zeros(d).double(), atol=1e-5, rtol=0)


def test_invariant_1_entries_have_the_scale_of_unit_rows() -> None:
    a = simplex_frame(100, 512, generator())
    assert float(a.std()) == pytest.approx(1 / math.sqrt(512), rel=0.02)


def test_invariant_1_same_seed_same_anchors_on_every_client_in_every_round() -> None:
    env = make_env()
    first = torch.randn(3, 16, generator=generator())
    for kind in ("random", "etf", "interpolated"):
        points = [
            Anchors(kind).points(first, place)
            for place in (env, env.at(0), env.at(3), make_env(rounds=7).at(1))
        ]
        assert points[0] is not None
        for other in points[1:]:
            assert other is not None
            assert torch.equal(points[0], other)
        elsewhere = Anchors(kind).points(first, make_env(seed=1))
        assert elsewhere is not None
        assert not torch.equal(points[0], elsewhere)


def test_invariant_2_two_classes_are_opposite() -> None:
    a = simplex_frame(2, 6, generator())
    torch.testing.assert_close(a[1], -a[0], atol=1e-6, rtol=0)


def test_random_rows_have_length_one() -> None:
    rows = random_frame(7, 5, generator())
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(7))


@pytest.mark.parametrize(("c", "d"), [(20, 8), (30, 5), (5, 2)])
def test_low_coherence_is_nearer_to_the_welch_bound_than_chance(c: int, d: int) -> None:
    def largest(rows: torch.Tensor) -> float:
        cosines = rows @ rows.T - 2 * torch.eye(len(rows))
        return float(cosines.max())

    spread, chance = low_coherence_frame(c, d, generator()), random_frame(c, d, generator())
    torch.testing.assert_close(spread.norm(dim=1), torch.ones(c))
    assert largest(spread) < largest(chance) - 0.05
    assert float((spread @ spread.T - torch.eye(c)).abs().max()) >= welch_bound(c, d) - 1e-6


def test_points_on_a_circle_end_up_evenly_spread() -> None:
    spread = low_coherence_frame(5, 2, generator(3))
    largest = float((spread @ spread.T - 2 * torch.eye(5)).max())
    assert largest == pytest.approx(math.cos(2 * math.pi / 5), abs=0.05)


def test_edge_more_classes_than_a_simplex_holds_is_refused_with_the_way_out() -> None:
    words = "20 classes do not form a simplex in 8 dimensions.*lowcoherence"
    with pytest.raises(ConfigError, match=words):
        Anchors("etf").points(torch.randn(20, 8, generator=generator()), make_env())


@pytest.mark.parametrize("fallback", ["lowcoherence", "random"])
def test_edge_fallbacks_have_the_right_shape(fallback: str) -> None:
    first = torch.randn(20, 8, generator=generator())
    points = Anchors("etf", fallback=fallback).points(first, make_env())
    assert points is not None
    assert points.shape == (20, 8)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(20))


def test_edge_one_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 2 classes, not 1"):
        Anchors("etf").points(torch.randn(1, 8, generator=generator()), make_env())


def test_matched_anchors_are_as_long_as_the_first_prototypes() -> None:
    first = torch.randn(3, 16, generator=generator())
    points = Anchors("etf", scale="matched").points(first, make_env())
    assert points is not None
    torch.testing.assert_close(points.norm(dim=1), first.norm(dim=1).mean().expand(3))


def test_interpolated_target_goes_from_first_prototypes_to_anchors() -> None:
    anchors, first = Anchors("interpolated"), torch.randn(3, 16, generator=generator())
    points = anchors.points(first, make_env())
    assert points is not None
    torch.testing.assert_close(anchors.target(points, first, 0.0), first)
    torch.testing.assert_close(anchors.target(points, first, 1.0), points)
    torch.testing.assert_close(anchors.target(points, first, 0.25), 0.75 * first + 0.25 * points)
    assert torch.equal(Anchors("etf").target(points, first, 0.25), points)


def test_no_anchors_are_none() -> None:
    assert Anchors().points(torch.zeros(3, 4), make_env()) is None
