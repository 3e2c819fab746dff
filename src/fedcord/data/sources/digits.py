"""Optical digits: 1,797 images of 8x8 inside scikit-learn, so the default needs no download."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np

from fedcord.core.errors import DataError
from fedcord.data.dataset import Array, Dataset, Split
from fedcord.data.formats.images import channel_statistics
from fedcord.data.locate import Search
from fedcord.data.sources.stratify import stratified_test_part
from fedcord.data.spec import DatasetSpec

_ROWS, _COLUMNS = 1797, 65


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """The digits with a fixed stratified 80/20 split; grey levels 0..16 spread over 0..255."""
    table = _table()
    images = np.rint(table[:, :64] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = table[:, 64].astype(np.int64)
    train, test = stratified_test_part(labels, "digits")
    mean, std = channel_statistics(images[train])
    return Dataset(
        name=spec.name,
        kind="image",
        train=Split(images[train], labels[train]),
        test=Split(images[test], labels[test]),
        class_names=tuple(str(digit) for digit in range(10)),
        mean=mean,
        std=std,
    )


def _table() -> Array:
    """float64 [1797, 65]: 64 grey levels and the digit.

    Read from the installed file because importing scikit-learn takes over a second; if a release
    moves the file, its own loader is asked.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise DataError(
            "data set 'digits' lies inside scikit-learn, which is not installed; run "
            "'pip install scikit-learn'."
        )
    file = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    if file.is_file():
        with gzip.open(file, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",")
        if table.shape == (_ROWS, _COLUMNS):
            return table
    return _table_from_loader()


def _table_from_loader() -> Array:
    from sklearn.datasets import load_digits

    digits = load_digits()
    table: Array = np.column_stack([digits.data, digits.target])
    return table
