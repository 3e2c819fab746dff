"""Every method's model as a program that gives the model's scores."""

from __future__ import annotations

import io

import pytest
import torch

from fedcord.algorithms.registry import ALGORITHMS
from fedcord.checks.expectations import Expectations
from fedcord.checks.subject import Subject
from fedcord.checks.tiny_task import tiny_task
from fedcord.trained.program import program_bytes, traced
from tests.checks.registered import registered


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_program_gives_the_scores_of_the_model(name: str) -> None:
    algorithm, _ = registered(name)
    subject = Subject(algorithm, tiny_task("images"), Expectations())
    last = subject.walk(algorithm).steps[-1]
    made = algorithm.predictor(last.after.model, {}, last.env)
    stored = subject.tiny.population.test.inputs
    assert stored.dtype == torch.uint8
    program = traced(lambda inputs: made.scores(subject.task.prepare(inputs)), stored)
    loaded = torch.export.load(io.BytesIO(program_bytes(program, "{}"))).module()
    wanted = made.scores(subject.task.prepare(stored))
    for size in (1, 2, len(stored)):
        found = loaded(stored[:size])
        torch.testing.assert_close(found, wanted[:size], rtol=1e-5, atol=1e-5)
        assert torch.equal(found.argmax(dim=1), wanted[:size].argmax(dim=1))


def test_kernels_that_lie_in_another_order_are_saved_without_a_warning() -> None:
    """Warnings are errors here."""
    numbers = torch.arange(4 * 3 * 3 * 3).float().view(4, 3, 3, 3)
    kernel = numbers.to(memory_format=torch.channels_last)
    inputs = (torch.arange(7 * 3 * 5 * 5) % 11).view(7, 3, 5, 5).to(torch.uint8)
    program = traced(lambda x: torch.conv2d(x.float(), kernel).flatten(1), inputs)
    loaded = torch.export.load(io.BytesIO(program_bytes(program, "{}"))).module()
    torch.testing.assert_close(loaded(inputs), torch.conv2d(inputs.float(), numbers).flatten(1))
