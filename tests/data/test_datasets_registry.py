"""Names, options and the data sets that need no files."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcord.core.errors import DataError
from fedcord.data import (
    DATASETS,
    USER_FORMATS,
    Dataset,
    DatasetInfo,
    check_spec,
    load_dataset,
)
from fedcord.data.sources import digits
from fedcord.data.sources.stratify import stratified_test_part

DIGITS_SHA256 = "2d6e520cf6029d030993d00a1ea0111391babc8e910cbe2fb6930de3db1aced1"


def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256()
    for split in (dataset.train, dataset.test):
        for array in (split.inputs, split.labels, *split.groups.values()):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("info", [*DATASETS.values(), *USER_FORMATS.values()])
def test_every_registered_loader_exists(info: DatasetInfo) -> None:
    module, _, function = info.loader.partition(":")
    assert callable(getattr(importlib.import_module(f"fedcord.data.sources.{module}"), function))


def test_promised_names_are_registered() -> None:
    assert set(DATASETS) == {
        *("digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "svhn", "tiny-imagenet"),
        *("usps", "mnist-m", "digits-domains", "office-caltech10", "ag-news", "ham10000"),
        "synthetic",
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("cifar1O", "unknown data set 'cifar1O'; did you mean 'cifar10'"),
        ("zip:somewhere", "unknown data set 'zip:somewhere'.*npz:PATH"),
        ("npz", "unknown data set 'npz'.*npz:PATH"),
        ("./mine.npz", "unknown data set './mine.npz'.*of your own is named csv:PATH, npz:PATH or"),
        ("npz:", "no path after 'npz:'"),
        ("digits?size=3", "data set 'digits' has no options, but 'size' was given"),
        ("synthetic?sample=3", "unknown option of data set 'synthetic' 'sample'; did you mean"),
        ("synthetic?samples", "'samples' is not an option; write each once as key=value"),
        ("synthetic?dim=2&dim=3", "'dim=3' is not an option; write each once"),
    ],
)
def test_wrong_specs_are_refused_before_any_data_is_touched(spec: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        check_spec(spec)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("synthetic?samples=none", "samples=none is not allowed; give a whole number from 1 to"),
        ("synthetic?samples=0", "samples=0 is not allowed"),
        ("synthetic?classes=1", "classes=1 is not allowed; give a whole number from 2"),
        ("synthetic?samples=5&clients=6", "clients=6 is more than samples=5"),
        ("synthetic?samples=100000000&dim=100000", "need 40,004 GB; at most .* choose fewer or"),
        ("synthetic?classes=100000&dim=100000", "need 84.* GB; at most .* a quarter of this mach"),
        ("npz:x.npz?layout=hwcn", "unknown layout of data set 'npz' 'hwcn'"),
        ("digits-domains?domains=mnist,uspss", "unknown domain .* 'uspss'; did you mean 'usps'"),
        ("digits-domains?domains=mnist", "name at least two different domains"),
    ],
)
def test_wrong_option_values_are_refused(spec: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_dataset(spec)


def test_digits_is_the_same_on_every_machine() -> None:
    dataset = load_dataset("digits")
    assert dataset.train.inputs.shape == (1438, 1, 8, 8)
    assert dataset.test.inputs.shape == (359, 1, 8, 8)
    assert int(dataset.train.inputs.max()) == 255
    assert sorted(np.unique(dataset.test.labels)) == list(range(10))
    assert _digest(dataset) == DIGITS_SHA256
    assert _digest(load_dataset("digits")) == DIGITS_SHA256


def test_digits_read_from_the_file_equal_those_of_scikit_learn() -> None:
    np.testing.assert_array_equal(digits._table(), digits._table_from_loader())


def test_synthetic_has_the_asked_sizes_and_repeats() -> None:
    spec = "synthetic?samples=1000&classes=7&dim=5&clients=13"
    dataset = load_dataset(spec)
    assert dataset.train.inputs.shape == (1000, 5)
    assert dataset.test.inputs.shape == (200, 5)
    assert np.ptp(np.bincount(dataset.train.labels)) <= 1
    assert np.ptp(np.bincount(dataset.train.groups["client"], minlength=13)) <= 1
    assert _digest(dataset) == _digest(load_dataset(spec))
    assert _digest(dataset) != _digest(load_dataset(f"{spec}&seed=1"))


def test_synthetic_classes_can_be_told_apart() -> None:
    dataset = load_dataset("synthetic?samples=2000&classes=4&dim=16")
    train, test = dataset.train, dataset.test
    centres = np.stack([train.inputs[train.labels == c].mean(0) for c in range(4)])
    distances = ((test.inputs[:, None] - centres) ** 2).sum(-1)
    assert float((distances.argmin(1) == test.labels).mean()) > 0.9


def test_listing_imports_no_heavy_package() -> None:
    code = (
        "import sys, fedcord.data; fedcord.data.load_dataset('digits'); "
        "print([m for m in ('torch', 'sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80))
def test_fixed_test_part_is_a_stratified_fifth(strata: list[int]) -> None:
    values = np.array(strata, np.int64)
    train, test = stratified_test_part(values, "property")
    again = stratified_test_part(values, "property")
    assert sorted([*train, *test]) == list(range(len(values)))
    np.testing.assert_array_equal(test, again[1])
    for stratum in set(strata):
        rows = int((values == stratum).sum())
        expected = 0 if rows == 1 else max(1, round(rows / 5))
        assert int((values[test] == stratum).sum()) == expected
