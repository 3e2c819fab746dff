"""Rows: two views where there are any, the example itself where not."""

from __future__ import annotations

import pytest
import torch

from fedcord.algorithms.oneshot.views import chosen_view, rows_of
from fedcord.core.errors import ConfigError
from tests.federation import IMAGE, VECTOR, examples, task

TINY = {**IMAGE, "input_shape": [1, 8, 8], "models": ["mlp:16"]}


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_auto_depends_on_the_data() -> None:
    assert chosen_view("auto", task(IMAGE)) == "simclr"
    assert chosen_view("auto", task(TINY)) == "none"
    assert chosen_view("auto", task(VECTOR)) == "none"
    assert chosen_view("crop", task(TINY)) == "crop"


@pytest.mark.parametrize("view", ["simclr", "simclr-batch", "crop"])
def test_two_different_views_of_each_example_with_its_label(view: str) -> None:
    data, chosen = examples(6, 0, IMAGE), torch.tensor([4, 1, 3])
    inputs, labels = rows_of(view, data, task(IMAGE))(chosen, generator())
    assert inputs.shape == (6, 1, 16, 16)
    assert torch.equal(labels, data.labels[torch.tensor([4, 1, 3, 4, 1, 3])])
    assert not torch.equal(inputs[:3], inputs[3:])
    again, _ = rows_of(view, data, task(IMAGE))(chosen, generator())
    assert torch.equal(inputs, again)


def test_batch_views_change_all_examples_alike() -> None:
    data = examples(2, 0, IMAGE)
    data.inputs[1] = data.inputs[0]
    inputs, _ = rows_of("simclr-batch", data, task(IMAGE))(torch.tensor([0, 1]), generator())
    torch.testing.assert_close(inputs[0], inputs[1])
    inputs, _ = rows_of("simclr", data, task(IMAGE))(torch.tensor([0, 1]), generator())
    assert not torch.equal(inputs[0], inputs[1])


def test_without_views_rows_are_the_prepared_examples() -> None:
    data, here = examples(6, 0, IMAGE), task(IMAGE)
    inputs, labels = rows_of("none", data, here)(torch.tensor([5, 2]), generator())
    assert torch.equal(inputs, here.prepare(data.inputs[[5, 2]]))
    assert torch.equal(labels, data.labels[[5, 2]])


def test_edge_a_lone_example_is_repeated_for_batch_normalisation() -> None:
    data = examples(3, 0)
    inputs, labels = rows_of("auto", data, task())(torch.tensor([2]), generator())
    assert inputs.shape == (2, 8)
    assert torch.equal(inputs[0], inputs[1])
    assert len(labels) == 2


def test_views_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="'simclr' does not fit this data; allowed: auto, none"):
        rows_of("simclr", examples(3, 0), task())
