"""Plans as they stand in study files."""

from __future__ import annotations

from typing import Any

import pytest

from fedcord.core.errors import ConfigError
from fedcord.store.study_plan import Comparison, StudyPlan

PLAN: dict[str, Any] = {
    "question": "Is a better\nthan b-c?",
    "primary": ["a - b-c", "a - best other"],
    "seeds": [12, 10, 11],
    "stopping": "after three seeds",
}


def test_a_plan_is_read_and_written_alike() -> None:
    plan = StudyPlan.from_plain(PLAN)
    assert plan.question == "Is a better than b-c?"
    assert plan.primary == (Comparison("a", "b-c"), Comparison("a", "best other"))
    assert plan.seeds == (10, 11, 12)
    assert StudyPlan.from_plain(plan.to_plain()) == plan
    more = StudyPlan.from_plain({**PLAN, "analysis": "paired"})
    assert StudyPlan.from_plain(more.to_plain()) == more != plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"questoin": "?"}, "unknown entry of .plan. 'questoin'"),
        ({"primary": ["a-b"]}, "two contenders"),
        ({"primary": "a - b"}, "must be a list"),
        ({"primary": []}, "must be a list"),
        ({"primary": ["a - b - c"]}, "two contenders"),
        ({"seeds": 3}, "list of whole numbers"),
        ({"seeds": [1, True]}, "list of whole numbers"),
        ({"seeds": [-1]}, "list of whole numbers"),
        ({"seeds": [1, 1]}, "there twice"),
        ({"stopping": " "}, "must be text"),
        ({"analysis": 3}, "must be text"),
    ],
)
def test_mistakes_are_told(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StudyPlan.from_plain({**PLAN, **change})


@pytest.mark.parametrize("name", list(PLAN))
def test_what_a_plan_lacks_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=f"needs {name}"):
        StudyPlan.from_plain({key: value for key, value in PLAN.items() if key != name})


def test_contenders_that_a_study_does_not_have_are_told() -> None:
    plan = StudyPlan.from_plain(PLAN)
    plan.check(["a", "b-c"])
    with pytest.raises(ConfigError, match="unknown contender 'b-c'"):
        plan.check(["a", "b"])
