"""Whose encoders are used: rules against brute force, and budgets."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcord.algorithms.accord.selection import (
    Cost,
    Selection,
    at_random,
    by_coverage,
    by_difference,
    by_size,
    linear_cka,
)
from fedcord.cli.main import main
from fedcord.core.errors import ConfigError
from fedcord.core.rng import torch_generator
from fedcord.ops.number_format import (
    travelling_bytes,
)
from tests.algorithms.accord.encoders import MIXED, method, run
from tests.federation import task

COUNTS = st.lists(
    st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any), min_size=1, max_size=6
)


def as_counts(rows: Any) -> Any:
    return {2 * number: torch.tensor(row, dtype=torch.float32) for number, row in enumerate(rows)}


@given(COUNTS)
def test_size_is_a_stable_descending_sort(rows: Any) -> None:
    order = by_size(as_counts(rows))
    sizes = [sum(rows[client // 2]) for client in order]
    assert sizes == sorted(sizes, reverse=True)
    ties = [
        pair
        for pair in itertools.pairwise(order)
        if sum(rows[pair[0] // 2]) == sum(rows[pair[1] // 2])
    ]
    assert all(first < second for first, second in ties)


@given(COUNTS)
def test_coverage_takes_the_best_next_client_every_time(rows: Any) -> None:
    counts = as_counts(rows)
    order = by_coverage(counts)
    assert sorted(order) == sorted(counts)
    for place in range(len(order)):
        before = np.sum([rows[client // 2] for client in order[:place]], axis=0) + np.zeros(3)
        values = {c: np.sqrt(before + rows[c // 2]).sum() for c in order[place:]}
        assert values[order[place]] >= max(values.values()) - 1e-9


def test_coverage_prefers_a_small_client_with_unseen_classes() -> None:
    rows = [[50, 50, 0], [60, 60, 0], [0, 0, 40]]
    assert by_coverage(as_counts(rows)) == [2, 4, 0]
    assert by_size(as_counts(rows)) == [2, 0, 4]


def test_random_orders_are_all_reached_and_follow_the_seed() -> None:
    counts = as_counts([[1, 0, 0], [0, 2, 0], [3, 0, 0]])
    orders = [
        tuple(at_random(counts, torch_generator(seed, "selection", 0, 0))) for seed in range(60)
    ]
    assert len(set(orders)) == 6
    assert orders[7] == tuple(at_random(counts, torch_generator(7, "selection", 0, 0)))


def hsic(first: Any, second: Any) -> Any:
    """By its definition, with Gram matrices of samples and a centring matrix."""
    count = len(first)
    centre = np.eye(count) - np.ones((count, count)) / count
    left, right = first @ first.T, second @ second.T
    return np.trace(left @ centre @ right @ centre) / (count - 1) ** 2


@given(seed=st.integers(0, 10**6), widths=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_cka_is_normalised_hsic(seed: int, widths: Any) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.normal(size=(12, width)) for width in widths)
    wanted = hsic(first, second) / np.sqrt(hsic(first, first) * hsic(second, second))
    assert linear_cka(torch.from_numpy(first), torch.from_numpy(second)) == pytest.approx(wanted)


def test_cka_is_one_for_rotated_and_scaled_features_and_zero_for_constant_ones() -> None:
    features = torch.randn(20, 5, generator=torch_generator(0, "x", 0, 0), dtype=torch.float64)
    rotation = torch.linalg.qr(features[:5]).Q
    assert linear_cka(features, 3 * features @ rotation) == pytest.approx(1)
    assert linear_cka(features, torch.ones(20, 4, dtype=torch.float64)) == 0


def test_difference_always_takes_the_one_least_like_any_chosen() -> None:
    draws = torch_generator(1, "x", 0, 0)
    features = {k: torch.randn(30, 4, generator=draws, dtype=torch.float64) for k in range(5)}
    features[5] = 2 * features[0]  # the same as the first, so it comes last
    order = by_difference(features, first=0)
    assert order[0] == 0
    assert order[-1] == 5
    for place in range(1, len(order)):
        likeness = {
            k: max(linear_cka(features[k], features[other]) for other in order[:place])
            for k in order[place:]
        }
        assert likeness[order[place]] == min(likeness.values())


def test_what_does_not_fit_is_passed_over_and_all_limits_hold() -> Any:
    costs = {0: Cost(60, 10), 1: Cost(50, 10), 2: Cost(30, 40), 3: Cost(10, 5)}
    order = [0, 1, 2, 3]

    def chosen(width_limit: Any = 1000, **values: Any) -> Any:
        return Selection(**values).within_budget(order, costs.__getitem__, width_limit)

    assert chosen(byte_budget=1000) == [0, 1, 2, 3]
    assert chosen(byte_budget=100) == [0, 2, 3]
    assert chosen(byte_budget=40) == [2, 3]
    assert chosen(byte_budget=5) == []
    assert chosen(byte_budget=1000, max_encoders=2) == [0, 1]
    assert chosen(byte_budget=1000, width_limit=30) == [0, 1, 3]


@pytest.mark.parametrize("rule", ["size", "coverage", "random", "cka", "all"])
def test_every_rule_keeps_to_the_most_encoders_and_to_the_width(rule: str) -> None:
    states, records = run(method(selection={"rule": rule, "max_encoders": 2}))
    assert len(states[-1].shared["chosen"]) == 2
    assert all(record.refused == () for record in records)
    wide, _ = run(method(selection={"rule": rule}, joint={"width_limit": 50}))
    assert len(wide[-1].shared["chosen"]) == 3  # 16 features each
    assert wide[-1].result["head.weight"].shape == (49, 3)


def test_bytes_of_small_formats_count_against_the_budget() -> None:
    here = task(MIXED)
    encoder = {n: t for n, t in here.scratch_network(1).state_dict().items() if "head" not in n}
    least = travelling_bytes(encoder, "int8")
    budget = {"selection": {"byte_budget": 3 * least}}
    assert len(run(method(encoder_format="int8", **budget), MIXED)[0][-1].shared["chosen"]) >= 3
    assert len(run(method(**budget), MIXED)[0][-1].shared["chosen"]) < 3


def test_limits_that_no_encoder_can_meet_are_refused_at_once_all_together() -> None:
    tight = method(joint={"width_limit": 10}, selection={"byte_budget": 100})
    wide, heavy = tight.review(task()).errors
    assert "1 encoder(s) of width 16 make a head of 16 features" in wide
    assert "takes 576 bytes as float32; raise it to 576 or more" in heavy
    with pytest.raises(ConfigError, match="refinements = 1 needs every encoder's own columns"):
        method(refinements=1, joint={"projection": 4})
    with pytest.raises(ConfigError, match="projection and expansion"):
        method(joint={"projection": 4, "expansion": "relu"})


def test_more_encoders_at_most_than_fit_are_no_mistake_but_a_note() -> None:
    some = {"joint": {"width_limit": 50}, "ridge": 0.5}  # 16 features each
    many = method(selection={"max_encoders": 100}, **some)
    review = many.review(task())
    assert not review.errors
    (note,) = (note for note in review.notes if "max_encoders" in note)
    assert "100 encoder(s) of width 16 make a head of 1600 features" in note
    assert "as many encoders are used as fit" in note
    few, plain = run(many, sizes=(40, 25))[0][-1], run(method(**some), sizes=(40, 25))[0][-1]
    assert torch.equal(few.result["head.weight"], plain.result["head.weight"])
    assert run(many)[0][-1].result["head.weight"].shape == (49, 3)
    fitting = method(selection={"max_encoders": 3}, **some)
    assert not any("max_encoders" in note for note in fitting.review(task()).notes)


def test_a_projection_wider_than_the_limit_does_not_make_the_head_so() -> None:
    wide = {"projection": 60, "width_limit": 50}
    states, _ = run(method(joint=wide, ridge=0.5))
    assert len(states[-1].shared["chosen"]) == 3
    assert states[-1].result["head.weight"].shape == (49, 3)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("selection.max_encoders=0", "max_encoders = 0: must be >= 1"),
        ("selection.byte_budget=100", "takes 4160 bytes as float32; raise it to 4160 or more"),
        ("joint.width_limit=10", "set joint.projection=10, fewer encoders"),
        ("joint.width=9000 joint.expansion=relu", "make a head of 9000 features"),
        ("selection.rule=best", "rule"),
        ("encoder_format=int4", "encoder_format"),
    ],
)
def test_bad_input_ends_with_2_in_clear_words_and_leaves_nothing(
    assignment: Any, words: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [part for value in assignment.split() for part in ("--set", value)]
    out = tmp_path / "run"
    code = main(["run", "accord", "--model", "mlp:16", *sets, "--out", str(out)])
    assert code == 2
    assert words in capsys.readouterr().err
    assert not out.exists()
