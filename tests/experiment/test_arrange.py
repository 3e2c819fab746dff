import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcord.data.registry import load_dataset
from fedcord.experiment import build
from fedcord.experiment.arrange import PIECES, taken
from fedcord.experiment.build import build_experiment
from fedcord.experiment.load import load_config

ROWS = {
    "as they are": np.arange(100),
    "shuffled": np.random.default_rng(0).permutation(100),
    "some": np.array([7, 3, 99, 12]),
    "some twice": np.array([7, 7, 0, 7]),
    "more than there are": np.arange(300) % 100,
    "none": np.zeros(0, dtype=np.int64),
}


class Noted(np.ndarray):
    """An array that tells how it shrinks."""

    lengths: list[int]

    def resize(self, shape: Any, *, refcheck: bool = True) -> None:  # type: ignore[override]
        self.lengths.append(shape[0])
        super().resize(shape, refcheck=refcheck)


def _inputs(shape: tuple[int, ...], lengths: list[int]) -> Noted:
    made = Noted((100, *shape), dtype=np.float32)
    made[:] = np.random.default_rng(1).normal(size=made.shape)
    made.lengths = lengths
    return made


@pytest.mark.parametrize("shape", [(5,), (1, 6, 7)])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows_are_taken_whether_or_not_somebody_else_holds_them(
    rows: np.ndarray, shape: tuple[int, ...]
) -> None:
    lengths: list[int] = []
    held = _inputs(shape, lengths)
    before = np.array(held)
    found = taken([held], rows)
    assert np.array_equal(held, before)
    assert not lengths
    assert np.array_equal(found.numpy(), before[rows])
    used_up = taken([_inputs(shape, lengths)], rows)
    assert torch.equal(used_up, found)
    assert used_up.data_ptr() % 64 == 0


def test_what_nobody_else_holds_shrinks_while_it_is_taken() -> None:
    lengths: list[int] = []
    taken([_inputs((5,), lengths)], ROWS["shuffled"])
    assert PIECES // 2 < len(lengths) <= PIECES + 1
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (100, 0)
    more: list[int] = []
    taken([_inputs((5,), more)], ROWS["more than there are"])  # each is needed until the end
    assert not more


def test_a_data_set_of_the_callers_is_left_as_it_is() -> None:
    mine = load_dataset("digits")
    before = mine.train.inputs.copy(), mine.test.inputs.copy()
    made = build_experiment(load_config({"dataset": "own:mine", "clients": 5}), mine)
    assert np.array_equal(mine.train.inputs, before[0])
    assert np.array_equal(mine.test.inputs, before[1])
    named = build_experiment(load_config({"dataset": "digits", "clients": 5}))
    assert torch.equal(made.population.inputs, named.population.inputs)


def test_a_data_set_that_was_loaded_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def load(*args: Any, **settings: Any) -> Any:

        found = load_dataset(*args, **settings)
        inputs = Noted(found.train.inputs.shape, dtype=found.train.inputs.dtype)
        inputs[:] = found.train.inputs
        inputs.lengths = lengths
        return dataclasses.replace(found, train=dataclasses.replace(found.train, inputs=inputs))

    monkeypatch.setattr(build, "load_dataset", load)
    build_experiment(load_config({"dataset": "digits", "clients": 5}))
    assert lengths
    assert lengths[-1] == 0


def test_a_partition_that_names_test_parts_decides_them_and_a_share_of_the_rest_selects(
    tmp_path: Path,
) -> None:
    path = tmp_path / "clients.json"
    path.write_text(json.dumps({"clients": [list(range(12)), [20, 21]], "test": [[11, 3], []]}))
    values = {"dataset": "digits", "partition": f"file:{path}", "clients": 0, "validation": 0.3}
    for share in (0.0, 0.5):  # of clients' examples; not asked for here
        made = build_experiment(load_config({**values, "test": share}))
        labels = load_dataset("digits").train.labels
        first, second = (made.population.client(k) for k in (0, 1))
        assert first.test.labels.tolist() == labels[[3, 11]].tolist()
        assert (len(first.train), len(first.validation), len(second.test)) == (7, 3, 0)
        assert len(second.train) == 2
