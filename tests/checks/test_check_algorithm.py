"""The function users call: its report, its errors, and the tasks it works on."""

from __future__ import annotations

import doctest
from dataclasses import dataclass

import pytest
import torch

import fedcord.checks
from fedcord.checks import CHECKS, ContractViolation, Expectations, check_algorithm
from fedcord.checks.compare import difference
from fedcord.checks.tiny_task import EMPTY_CLIENT, ODD_CLIENTS, SHAPES, tiny_task
from fedcord.core.contract import ServerState, Traits
from fedcord.core.errors import ConfigError, FedcordError
from fedcord.core.tensors import hash_tensors
from tests.checks.broken import aggregation, prediction
from tests.checks.sound import NearestMean, Plain


def test_a_report_lists_every_check_on_every_task_in_order() -> None:
    report = check_algorithm(NearestMean(), Expectations(is_random=False))
    assert [(r.check, r.task) for r in report.results] == [(c, t) for c in CHECKS for t in SHAPES]
    assert report.passed
    assert str(report).startswith(f"NearestMean: 0 of {2 * len(CHECKS)} checks failed")


def test_collecting_reports_every_failure_with_all_its_reasons() -> None:
    report = check_algorithm(aggregation.RaggedPrototypes(), collect=True)
    assert not report.passed
    assert {(r.check, r.task) for r in report.failures} == {
        (check, task) for check in ("odd-clients", "equal-updates") for task in SHAPES
    }
    assert all(len(result.reasons) > 1 for result in report.failures)
    assert f"4 of {2 * len(CHECKS)} checks failed" in str(report)
    assert "client 0 did not send proto.2" in str(report)


def test_without_collecting_the_first_failure_is_raised() -> None:
    with pytest.raises(ContractViolation, match="RaggedPrototypes fails the check 'odd-clients'"):
        check_algorithm(aggregation.RaggedPrototypes())
    assert issubclass(ContractViolation, FedcordError)


def test_an_error_inside_the_algorithm_is_a_finding_with_its_cause() -> None:
    with pytest.raises(
        ContractViolation, match="ProtocolError was raised: the predictor"
    ) as caught:
        check_algorithm(prediction.PredictsLabels(), only=["learns"])
    assert caught.value.__cause__ is not None


def test_a_class_engines_cannot_import_fails_engines_agree() -> None:
    @dataclass(frozen=True)
    class Local(NearestMean):
        pass

    with pytest.raises(ContractViolation, match="move it to a module of its own"):
        check_algorithm(Local(), only=["engines-agree"])


def test_unknown_names_are_all_reported() -> None:
    with pytest.raises(ConfigError, match="did you mean 'resume'") as caught:
        check_algorithm(Plain(), only=["resum"], tasks=["sounds"])
    assert len(caught.value.problems) == 2


def test_an_algorithm_must_be_a_frozen_dataclass() -> None:
    class Loose(NearestMean):
        pass

    class Bare:
        traits = Traits(rounds=1)

    assert check_algorithm(Loose(), only=["predictor"]).passed  # a subclass stays frozen
    with pytest.raises(ConfigError, match="Bare is not a frozen dataclass"):
        check_algorithm(Bare())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 0}, "rounds = 0: must be at least 1"),
        ({"learning_rounds": 0}, "learning_rounds = 0"),
        ({"learns_at_least": 1 / 3}, "must be above chance"),
        ({"learns_at_least": 1.1}, "at most 1"),
    ],
)
def test_expectations_that_cannot_fail_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Expectations(**values)  # type: ignore[arg-type]


def test_an_own_identity_is_used() -> None:
    def counts(before: ServerState, update: object, after: ServerState) -> str | None:
        return None if after.shared["class.count"].sum() == 0 else "the server counted something"

    with pytest.raises(ContractViolation, match="the server counted something"):
        check_algorithm(NearestMean(), Expectations(identity=counts), only=["one-client-identity"])


@pytest.mark.parametrize("name", SHAPES)
def test_tiny_tasks_are_the_same_every_time_and_share_nothing(name: str) -> None:
    first, second = tiny_task(name), tiny_task(name)
    assert hash_tensors(first.population.tensors()) == hash_tensors(second.population.tensors())
    first.population.inputs.zero_()
    assert bool(second.population.inputs.any())
    assert first.task() is not first.task()


@pytest.mark.parametrize("name", SHAPES)
def test_odd_clients_are_as_odd_as_their_names(name: str) -> None:
    odd = tiny_task(name).odd
    sizes = dict(zip(ODD_CLIENTS, odd.train_sizes, strict=True))
    assert sizes["with one example"] == 1
    assert odd.train_sizes[EMPTY_CLIENT] == 0
    assert odd.client(0).train.labels.unique().numel() == 1


def test_image_task_has_buffers_and_integers() -> None:
    tensors = tiny_task("images").task().scratch_network().state_dict()
    assert any(name.endswith("running_var") for name in tensors)
    assert any(not tensor.is_floating_point() for tensor in tensors.values())


@pytest.mark.parametrize(
    ("found", "tolerance", "reason"),
    [
        (torch.tensor([1.0, 2.0]), 0.0, None),
        (torch.tensor([1.0, 2.0 + 1e-6]), 1e-5, None),
        (torch.tensor([1.0, 2.0 + 1e-6]), 0.0, "x differs by .* (allowed: no bit)"),
        (torch.tensor([1.0, 2.1]), 1e-5, "x differs by 0.1 (allowed: 2e-05)"),
        (torch.tensor([1.0, float("nan")]), 1e-5, "x differs by nan"),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), 1e-5, "x is float64[2], not float32[2]"),
    ],
)
def test_difference_names_tensor_and_gap(
    found: torch.Tensor, tolerance: float, reason: str | None
) -> None:
    gap = difference({"x": found}, {"x": torch.tensor([1.0, 2.0])}, tolerance)
    assert (gap is None) == (reason is None)
    if reason is not None:
        assert gap is not None
        assert gap.startswith(reason.partition(" .*")[0])


def test_difference_notices_a_tensor_on_one_side() -> None:
    assert difference({}, {"x": torch.zeros(1)}) == "x is on one side only"


def test_the_example_in_the_documentation_runs() -> None:
    outcome = doctest.testmod(fedcord.checks)
    assert outcome.attempted == 3
    assert outcome.failed == 0
