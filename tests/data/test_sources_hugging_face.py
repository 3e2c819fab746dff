"""`hf:DIR`: what Hugging Face `datasets` saved, as a table or as pictures."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import Image

from fedcord.core.errors import DataError
from fedcord.data import check_spec, load_dataset
from fedcord.data.formats import saved_dataset
from fedcord.data.sources.table_file import table_columns


@pytest.fixture(autouse=True)
def _no_bars() -> None:
    datasets.disable_progress_bars()


def table(rows: int = 40, **more: Any) -> datasets.Dataset:
    columns = {
        "age": [None if n % 9 == 4 else float(n * n % 17) for n in range(rows)],
        "ward": ["ABC"[n % 3] for n in range(rows)],
        "site": ["n" if n % 2 else "s" for n in range(rows)],
        "ill": [n % 5 == 0 for n in range(rows)],
    }
    features = datasets.Features(
        {
            "age": datasets.Value("float32"),
            "ward": datasets.Value("string"),
            "site": datasets.Value("string"),
            "ill": datasets.ClassLabel(names=["no", "yes"]),
        }
    )
    return datasets.Dataset.from_dict(columns, features=features)


def pictures(count: int = 20) -> datasets.Dataset:
    images = [Image.fromarray(np.full((6, 5, 3), 10 * n, np.uint8)) for n in range(count)]
    return datasets.Dataset.from_dict(
        {"scan": images, "label": [n % 2 for n in range(count)], "age": list(range(count))},
        features=datasets.Features(
            {
                "scan": datasets.Image(),
                "label": datasets.ClassLabel(names=["healthy", "ill"]),
                "age": datasets.Value("int64"),
            }
        ),
    )


def test_a_table_with_declared_classes_needs_no_target(tmp_path: Path) -> None:
    table().save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}?client=site")
    assert (dataset.kind, dataset.name) == ("table", "saved")
    assert dataset.class_names == ("no", "yes")
    assert dataset.group_names == {"site": ("n", "s")}
    assert dataset.table is not None
    assert [(c.name, c.kind) for c in dataset.table.columns] == [
        ("age", "numeric"),
        ("ward", "categorical"),
    ]
    assert len(dataset.train) + len(dataset.test) == 40
    assert dataset.train.rows is not None
    assert [int(row - 1) % 5 == 0 for row in dataset.train.rows] == dataset.train.labels.astype(
        bool
    ).tolist()


def test_saved_parts_are_kept(tmp_path: Path) -> None:
    parts = {"train": table(30), "validation": table(10), "test": table(20)}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}")
    assert (len(dataset.train), len(dataset.test)) == (40, 20)


def test_chosen_rows_of_a_saved_set_are_those_that_count(tmp_path: Path) -> None:
    table().select([5, 1, 0, 7, 8, 10]).save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}?drop=age")
    assert sorted([*dataset.train.labels, *dataset.test.labels]) == [0, 0, 0, 1, 1, 1]


def test_withheld_labels_are_missing(tmp_path: Path) -> None:
    features = datasets.Features(
        {"x": datasets.Value("float64"), "y": datasets.ClassLabel(names=["a", "b"])}
    )
    columns = {"x": [1.0, 2.0, 4.0, 8.0], "y": [0, 1, -1, 0]}
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}")
    assert dataset.notes == ("row 3 is left out: the target 'y' is missing.",)


def test_a_column_of_pictures_makes_images(tmp_path: Path) -> None:
    pictures().save_to_disk(tmp_path / "saved")
    dataset = load_dataset(f"hf:{tmp_path / 'saved'}?size=8")
    assert (dataset.kind, dataset.input_shape) == ("image", (3, 8, 8))
    assert dataset.class_names == ("healthy", "ill")
    assert dataset.train.rows is not None
    for row, pixels, label in zip(
        dataset.train.rows, dataset.train.inputs, dataset.train.labels, strict=True
    ):
        assert (pixels == 10 * (row - 1)).all()
        assert label == (row - 1) % 2
    assert dataset.notes == ("columns beside the pictures are left out: 'age'.",)


def test_inspect_knows_pictures_from_columns(tmp_path: Path) -> None:
    pictures().save_to_disk(tmp_path / "saved")
    lines, num_rows = table_columns(check_spec(f"hf:{tmp_path / 'saved'}")[0])
    assert num_rows == 20
    assert [(line.name, line.role, line.kind) for line in lines] == [
        ("scan", "input", "pictures"),
        ("label", "target", "categorical"),
        ("age", "left out", "numeric"),
    ]


def test_pictures_can_be_left_out(tmp_path: Path) -> None:
    wide = pictures().add_column("dose", [float(n % 7) for n in range(20)])
    wide.save_to_disk(tmp_path / "saved")
    assert load_dataset(f"hf:{tmp_path / 'saved'}?drop=scan").kind == "table"


def test_what_is_no_saved_data_set_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder; give one that save_to_disk has written"):
        load_dataset(f"hf:{tmp_path / 'none'}")
    with pytest.raises(DataError, match="cannot be read as a saved data set"):
        load_dataset(f"hf:{tmp_path}")
    datasets.DatasetDict({"other": table()}).save_to_disk(tmp_path / "parts")
    with pytest.raises(DataError, match="has the parts other; one called train is needed"):
        load_dataset(f"hf:{tmp_path / 'parts'}")


@pytest.mark.parametrize("name", ["state.json", "dataset_info.json", "data-00000-of-00001.arrow"])
def test_damaged_folders_are_loaded_or_refused(tmp_path: Path, name: str) -> None:
    table().save_to_disk(tmp_path / "saved")
    path = tmp_path / "saved" / name
    whole = path.read_bytes()
    for data in (b"", whole[: len(whole) // 2], b"{}", b"[1]", whole.replace(b"ill", b"\xffll")):
        path.write_bytes(data)
        with contextlib.suppress(DataError):
            load_dataset(f"hf:{tmp_path / 'saved'}")


def test_sizes_are_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table().save_to_disk(tmp_path / "saved")
    monkeypatch.setattr(saved_dataset, "data_limit", lambda: 100)
    monkeypatch.setattr(saved_dataset, "_named", None)  # nothing may get that far
    with pytest.raises(DataError, match="keep fewer rows or columns"):
        load_dataset(f"hf:{tmp_path / 'saved'}")


def test_without_the_library_the_way_to_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'fedcord\[huggingface\]'"):
        load_dataset(f"hf:{tmp_path}")
