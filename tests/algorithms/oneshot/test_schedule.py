"""Schedules and the four readings of progress."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fedcord.algorithms.kit.annealing import SHAPES, annealing
from fedcord.algorithms.oneshot.schedule import PROGRESS, Plan


@pytest.mark.parametrize("shape", ["linear", "cosine"])
def test_invariant_12_factors_fall_from_one_to_zero(shape: str) -> None:
    values = [annealing(shape, p / 100) for p in range(101)]
    assert values[0] == 1
    assert values[-1] == pytest.approx(0, abs=1e-15)
    assert all(a > b for a, b in pairwise(values))


def test_constant_stays_and_floor_holds() -> None:
    assert [annealing("constant", p) for p in (0.0, 0.5, 1.0)] == [1, 1, 1]
    assert annealing("linear", 1.0, floor=0.25) == 0.25
    assert annealing("cosine", 0.0, floor=0.25) == 1
    assert annealing("linear", 1.5) == 0
    assert set(SHAPES) == {"constant", "linear", "cosine"}


def test_invariant_14_v11_factors() -> None:
    plan = Plan(epochs=100, chunks=10)
    progress = [plan.progress("round_start", r, plan.epochs_of(r).start) for r in range(10)]
    linear = [round(annealing("linear", p), 4) for p in progress]
    cosine = [round(annealing("cosine", p), 4) for p in progress]
    assert linear == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    expected = [1, 0.9755, 0.9045, 0.7939, 0.6545, 0.5, 0.3455, 0.2061, 0.0955, 0.0245]
    assert cosine == expected


def test_round_end_factors_of_the_reported_tables() -> None:
    plan = Plan(epochs=50, chunks=50)
    found = [1 - plan.progress("round_end", r, r) for r in (0, 9, 14, 15, 19, 29)]
    assert found == pytest.approx([0.98, 0.80, 0.70, 0.68, 0.60, 0.40])


def test_global_progress_does_not_depend_on_chunks() -> None:
    for chunks in (1, 3, 7, 20):
        plan = Plan(20, chunks)
        found = [
            plan.progress("global", chunk, epoch)
            for chunk in range(chunks)
            for epoch in plan.epochs_of(chunk)
        ]
        assert found == [epoch / 20 for epoch in range(20)]


def test_chunk_progress_stands_still_with_one_epoch_each() -> None:
    plan = Plan(5, 5)
    assert [plan.progress("chunk", e, e) for e in range(5)] == [0] * 5
    assert [Plan(6, 2).progress("chunk", 1, e) for e in (3, 4, 5)] == [0, 1 / 3, 2 / 3]


@pytest.mark.parametrize(("epochs", "chunks"), [(10, 10), (10, 3), (7, 2), (1, 1), (11, 4)])
def test_chunks_cover_all_epochs_once_in_order(epochs: int, chunks: int) -> None:
    plan = Plan(epochs, chunks)
    covered = [epoch for chunk in range(chunks) for epoch in plan.epochs_of(chunk)]
    assert covered == list(range(epochs))
    assert all(len(plan.epochs_of(chunk)) >= 1 for chunk in range(chunks))
    for kind in PROGRESS:
        assert all(
            0 <= plan.progress(kind, chunk, epoch) <= 1
            for chunk in range(chunks)
            for epoch in plan.epochs_of(chunk)
        )
