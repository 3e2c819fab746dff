"""Predictors of all methods: made once, and nothing but functions of tensors from then on."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.registry import ALGORITHMS, first_of_class
from fedcord.checks.expectations import Expectations
from fedcord.checks.subject import Subject
from fedcord.checks.tiny_task import tiny_task
from fedcord.core.contract import Predictor
from tests.checks.registered import registered

CLASSES = [name for name in ALGORITHMS if first_of_class(name) == name]


@lru_cache(maxsize=1)
def finished(name: str) -> tuple[Predictor, Tensor]:
    """A predictor after a short run on tiny images, and prepared inputs."""
    algorithm, _ = registered(name)
    subject = Subject(algorithm, tiny_task("images"), Expectations())
    last = subject.walk(algorithm).steps[-1]
    inputs = subject.task.prepare(subject.tiny.population.test.inputs)
    return algorithm.predictor(last.after.model, {}, last.env), inputs


@pytest.mark.parametrize("name", CLASSES)
def test_nothing_is_loaded_or_drawn_to_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, inputs = finished(name)

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("weights are loaded, or numbers drawn, batch by batch")

    # every way to load a network reads or writes its state_dict
    for where, what in ((nn.Module, "state_dict"), (nn.Module, "load_state_dict")):
        monkeypatch.setattr(where, what, refuse)
    monkeypatch.setattr(np.random, "Philox", refuse)
    monkeypatch.setattr(torch, "Generator", refuse)
    for batch in inputs.split(5):
        assert made.scores(batch).shape == (len(batch), 3)
