"""The real data sets, where they are on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from fedcord.core.folders import CACHE, data_folders
from fedcord.data import load_dataset

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def _folders() -> tuple[Path, ...]:
    given = data_folders() if os.environ.get("FEDCORD_DATA") else ()
    return tuple(f for f in (*given, Path(CACHE).expanduser(), SHARED) if f.is_dir())


@pytest.mark.parametrize(
    ("name", "file", "shape", "classes"),
    [
        ("mnist", "mnist", (1, 28, 28), 10),
        ("fashion-mnist", "fashion-mnist", (1, 28, 28), 10),
        ("cifar10", "cifar-10-batches-bin", (3, 32, 32), 10),
        ("cifar100", "cifar-100-binary", (3, 32, 32), 100),
        ("svhn", "svhn", (3, 32, 32), 10),
        ("usps", "usps.npz", (1, 16, 16), 10),
        ("mnist-m", "mnist-m.npz", (3, 32, 32), 10),
        ("office-caltech10", "office-caltech10-64.zip", (3, 32, 32), 10),
        ("ag-news", "ag_news_csv", (200,), 4),
        ("ham10000", "ham10000-28.npz", (3, 28, 28), 7),
        ("digits-domains?domains=usps,mnist-m", "mnist-m.npz", (3, 32, 32), 10),
    ],
)
def test_real_data_loads_with_every_class_in_both_parts(
    name: str, file: str, shape: tuple[int, ...], classes: int
) -> None:
    folders = _skip_without(file)
    dataset = load_dataset(name, data_dirs=folders)
    assert dataset.input_shape == shape
    for split in (dataset.train, dataset.test):
        assert np.unique(split.labels).tolist() == list(range(classes))


def _skip_without(file: str) -> tuple[Path, ...]:
    folders = _folders()
    if not any((folder / file).exists() for folder in folders):
        names = [str(folder) for folder in folders]
        pytest.skip(f"{file} is in none of {names}; set FEDCORD_DATA to run this")
    return folders


def test_tiny_imagenet_zip_holds_fifty_classes() -> None:
    folders = _skip_without("tiny-imagenet-50.zip")
    dataset = load_dataset("tiny-imagenet?size=16", data_dirs=folders)
    assert dataset.input_shape == (3, 16, 16)
    assert np.bincount(dataset.train.labels).tolist() == [80] * 50
    assert np.bincount(dataset.test.labels).tolist() == [20] * 50


def test_archive_of_jpegs_loads_twice_to_equal_bytes() -> None:
    folders = _skip_without("office-caltech10-64.zip")
    first, second = (load_dataset("office-caltech10", data_dirs=folders) for _ in range(2))
    assert first.train.inputs.tobytes() == second.train.inputs.tobytes()
    assert first.test.groups["domain"].tobytes() == second.test.groups["domain"].tobytes()
    assert len(first.train) + len(first.test) == 2533
