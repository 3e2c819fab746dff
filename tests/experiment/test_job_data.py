"""Data without a name, handed to other processes."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedcord.data.dataset import Dataset, Split
from fedcord.engine import shared_block
from fedcord.experiment.job_data import can_be_handed_over, dataset_from, handed_over


@dataclass(frozen=True)
class _Usage:
    free: int


def _with_everything() -> Dataset:
    train = Split(
        np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2),
        np.array([0, 1, 1]),
        {"domain": np.array([0, 0, 1])},
        ("a.png", "b.png", "ä.png"),
    )
    test = Split(
        np.zeros((0, 1, 2, 2), np.uint8), np.zeros(0, np.int64), {"domain": np.zeros(0, np.int64)}
    )
    names = {"domain": ("here", "there")}
    return Dataset("mine", "image", train, test, ("x", "y"), (0.5,), (0.25,), names, notes=("odd",))


def test_data_without_a_name_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = _with_everything()
    dataset.train.inputs.flags.writeable = False
    for room in (2**40, 0):  # in shared memory, and where that is too small
        monkeypatch.setattr(shutil, "disk_usage", lambda path, r=room: _Usage(r))
        with handed_over(dataset) as data:
            assert data is not None
            again = dataset_from(data.file, json.loads(json.dumps(data.plain)))
            for part in ("train", "test"):
                own, other = getattr(dataset, part), getattr(again, part)
                assert own.inputs.tobytes() == other.inputs.tobytes()
                assert own.inputs.shape == other.inputs.shape
                assert own.groups["domain"].tolist() == other.groups["domain"].tolist()
                assert own.files == other.files
            assert replace(again, train=dataset.train, test=dataset.test) == dataset
    odd = replace(dataset, notes=(object(),))  # type: ignore[arg-type]
    assert can_be_handed_over(dataset)
    assert not can_be_handed_over(odd)


def test_shared_memory_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage(10))
    with shared_block.nameless_file({}) as file:
        assert not os.readlink(f"/proc/self/fd/{file.fileno()}").startswith("/dev/shm")
