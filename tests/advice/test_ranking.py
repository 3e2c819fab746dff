from __future__ import annotations

import pytest

from fedcord.advice.ranking import effects


def test_methods_are_compared_through_those_that_both_met() -> None:
    """Effects 5, 2, 0 and any settings: an exact model is found again, up to the mean."""
    truth, levels = {"a": 5.0, "b": 2.0, "c": 0.0}, {"x": 40.0, "y": 70.0}
    met = [("a", "x"), ("b", "x"), ("b", "y"), ("c", "y")]  # a and c never
    scores: dict[str, dict[str, float]] = {}
    for name, setting in met:
        scores.setdefault(name, {})[setting] = truth[name] + levels[setting]
    found = effects(scores)
    assert list(found) == ["a", "b", "c"]
    assert found["a"] - found["c"] == pytest.approx(5, abs=0.02)
    assert sum(found.values()) == pytest.approx(0, abs=0.02)


def test_an_easy_setting_is_no_merit() -> None:
    scores = {"good": {"hard": 40.0}, "both": {"hard": 30.0, "easy": 90.0}, "poor": {"easy": 85.0}}
    assert list(effects(scores)) == ["good", "both", "poor"]


def test_only_what_is_linked_with_the_first_is_ranked() -> None:
    assert list(effects({"a": {"x": 1.0}, "b": {"y": 99.0}})) == ["a"]
    assert effects({}) == {}
