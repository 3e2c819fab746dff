"""Every part of a registered algorithm that has an opinion is asked for it."""

from __future__ import annotations

import dataclasses

import pytest

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.contract import Review
from tests.checks.registered import registered
from tests.federation import task

PARTS = [
    (name, field.name)
    for name, info in ALGORITHMS.items()
    if not info.is_logged
    for field in dataclasses.fields(registered(name)[0])  # type: ignore[arg-type]
    if hasattr(getattr(registered(name)[0], field.name), "review")
]


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_part_that_objects_is_heard(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = registered(name)[0]
    own = getattr(algorithm, part)
    objection = f"{part} objects"
    monkeypatch.setattr(
        type(own), "review", lambda self, task: Review((objection,) if self == own else ())
    )
    assert objection in algorithm.review(task()).errors


def test_parts_were_found() -> None:
    assert {"local", "features", "server", "anchors", "joint", "refine"} <= {p for _, p in PARTS}
