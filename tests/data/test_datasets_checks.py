"""A Dataset refuses everything that would only fail later, in words that name the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data import Dataset, Split


def _vectors(rows: int, **changes: Any) -> Split:
    fields: dict[str, Any] = {
        "inputs": np.zeros((rows, 3), np.float32),
        "labels": np.arange(rows, dtype=np.int64) % 2,
        "groups": {},
    }
    return Split(**(fields | changes))


def _dataset(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "mine",
        "kind": "vector",
        "train": _vectors(4),
        "test": _vectors(2),
        "class_names": ("a", "b"),
    }
    return Dataset(**(fields | changes))


def _images(rows: int, channels: int = 3) -> Split:
    return Split(np.zeros((rows, channels, 4, 5), np.uint8), np.zeros(rows, np.int64))


def test_valid_dataset_tells_its_sizes() -> None:
    dataset = _dataset()
    assert (dataset.num_classes, dataset.input_shape, len(dataset.train)) == (2, (3,), 4)


def test_empty_test_part_is_allowed() -> None:
    assert len(_dataset(test=_vectors(0)).test) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "audio"}, r"kind is 'audio'; allowed: image, vector, text"),
        ({"class_names": ()}, "class_names is empty"),
        ({"train": _vectors(0)}, "the training part has no examples"),
        (
            {"train": _vectors(4, inputs=np.zeros((4, 3)))},
            r"train inputs are float64 \[4, 3\]; kind 'vector' needs float32",
        ),
        ({"train": _vectors(4, inputs=[[1.0]])}, "train inputs are list"),
        (
            {"test": _vectors(2, inputs=np.zeros((2, 5), np.float32))},
            r"one training input has shape \[3\], one test input \[5\]",
        ),
        (
            {"train": _vectors(4, labels=np.array([0, 1, 2, 0]))},
            r"train labels contain 2 in row 2; allowed: 0\.\.1 \(2 classes\)",
        ),
        (
            {"test": _vectors(2, labels=np.array([0, -1]))},
            "test labels contain -1 in row 1",
        ),
        (
            {"train": _vectors(4, labels=np.zeros(3, np.int64))},
            "train labels have 3 rows but the inputs have 4",
        ),
        (
            {"train": _vectors(4, labels=np.zeros(4, np.int32))},
            r"train labels are int32 \[4\]; an int64 array \[N\] is needed",
        ),
        ({"train": _vectors(4, labels=[0, 1, 0, 1])}, "train labels are list"),
        (
            {"train": _vectors(4, groups={"user": np.zeros(2, np.int64)})},
            "train group 'user' have 2 rows",
        ),
        (
            {"train": _vectors(4, groups={"user": np.array([0, 1, -5, 0])})},
            "train group 'user' contain -5 in row 2; allowed: 0 or more",
        ),
        (
            {
                "train": _vectors(4, groups={"domain": np.array([0, 1, 2, 0])}),
                "group_names": {"domain": ("x", "y")},
            },
            r"train group 'domain' contain 2 in row 2; allowed: 0\.\.1 \(2 names\)",
        ),
        ({"group_names": {"domain": ("x",)}}, r"group_names has 'domain', but train.groups has"),
        ({"mean": (0.5,), "std": (0.5,)}, "mean has 1 and std 1 values"),
    ],
)
def test_wrong_parts_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        _dataset(**changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_first_row_that_is_not_finite_is_named(bad: float) -> None:
    inputs = np.zeros((70_000, 2), np.float32)
    inputs[[66_001, 69_000], 1] = bad  # beyond the first block that is checked
    split = Split(inputs, np.zeros(70_000, np.int64))
    with pytest.raises(DataError, match="train inputs hold NaN or infinity, first in row 66001;"):
        Dataset("mine", "vector", split, Split(inputs[:0], split.labels[:0]), ("a",))


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ((0.5,), (0.5,), "images with 3 channels need one of each"),
        ((0.5,) * 3, (), "std 0 values"),
        ((0.5,) * 3, (0.5, 0.0, 0.5), "std greater than 0"),
        ((0.5, float("nan"), 0.5), (0.5,) * 3, "must be finite"),
    ],
)
def test_normalisation_must_fit_the_channels(
    mean: tuple[float, ...], std: tuple[float, ...], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        Dataset("mine", "image", _images(2), _images(1), ("a",), mean, std)


def test_token_ids_stay_below_the_vocabulary() -> None:
    split = Split(np.array([[1, 7, 0]]), np.zeros(1, np.int64))
    assert Dataset("mine", "text", split, split, ("a",), vocabulary=8).input_shape == (3,)
    with pytest.raises(DataError, match=r"token ids run from 0 to 7; with vocabulary=7"):
        Dataset("mine", "text", split, split, ("a",), vocabulary=7)
