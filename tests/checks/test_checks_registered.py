"""Every registered algorithm keeps every promise on every tiny task."""

from __future__ import annotations

import pytest

from fedcord.algorithms.oneshot.ladder import PRESETS
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.checks import CHECKS, Expectations, check_algorithm
from fedcord.checks.tiny_task import SHAPES
from fedcord.core.contract import Algorithm
from tests.checks.registered import QUICK, ROWS, registered
from tests.checks.sound import Keeper, NearestMean


def test_there_are_registered_algorithms_and_seventeen_checks() -> None:
    assert len(ALGORITHMS) >= 2
    assert len(CHECKS) == 17
    assert set(SHAPES) == {"vectors", "images"}


def test_every_row_belongs_to_a_registered_algorithm() -> None:
    assert set(ROWS) <= set(ALGORITHMS)


ON_BOTH_TASKS = {"fafi", "v9b", "flare", "flare-lpa"}
"""Rungs of the one-shot ladder that are also tried on images; the others share their code."""

CASES = [
    (name, task)
    for name in ALGORITHMS
    for task in SHAPES
    if task == "vectors" or name not in PRESETS or name in ON_BOTH_TASKS
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("name", "task"), CASES)
def test_registered_algorithm_passes(name: str, task: str, check: str) -> None:
    algorithm, expectations = registered(name)
    report = check_algorithm(algorithm, expectations, only=[check], tasks=[task])
    assert [result.check for result in report.results] == [check]
    assert report.passed


def test_averaging_is_held_to_the_identity_and_fedprox_to_its_limit() -> None:
    for name, check in (("fedavg", "one-client-identity"), ("fedprox", "limits")):
        report = check_algorithm(*registered(name), only=[check], tasks=["vectors"])
        assert [result.status for result in report.results] == ["passed"]


def test_registered_settings_are_quick() -> None:
    algorithm, _ = registered("fedavg")
    assert getattr(algorithm, "local", None) == QUICK


KEPT = Expectations(identity=None, private_may_be_sent=("velocity.*norm?.*",))
"""Batch normalisation starts at zero, so the first velocity is what is shared."""


@pytest.mark.parametrize(
    ("algorithm", "expectations", "skipped"),
    [
        (
            NearestMean(),
            Expectations(is_random=False),
            {"one-client-identity", "sums-suffice", "limits"},
        ),
        (Keeper(), KEPT, {"one-client-identity", "splitting-adds-up", "limits"}),
    ],
)
def test_sound_algorithm_passes(
    algorithm: Algorithm, expectations: Expectations, skipped: set[str]
) -> None:
    report = check_algorithm(algorithm, expectations)
    assert report.passed
    assert {r.check for r in report.results if r.status == "not applicable"} == skipped


def test_learning_can_be_asked_of_clients() -> None:
    expectations = Expectations(learns_with="clients")
    assert check_algorithm(Keeper(), expectations, only=["learns"], tasks=["vectors"]).passed


def test_worker_processes_agree_too() -> None:
    report = check_algorithm(
        NearestMean(), only=["engines-agree"], tasks=["vectors"], with_processes=True
    )
    assert report.passed
