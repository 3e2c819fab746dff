"""`csv:` and `parquet:` as data sets: roles of columns, classes, clients, test parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcord.core.errors import DataError
from fedcord.data import Dataset, check_spec, load_dataset
from fedcord.data.registry import TABLES, USER_FORMATS
from fedcord.data.spec import DatasetSpec, as_option


def patients(rows: int = 200) -> pd.DataFrame:
    """Two hospitals and a practice with one patient; 4 % are ill."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "patient": [f"P{n:04}" for n in range(rows)],
            "hospital": rng.choice(["north", "south"], rows),
            "age": rng.normal(60, 15, rows).round(1),
            "ward": rng.choice(["A", "B", "C"], rows),
            "smoker": rng.random(rows) < 0.3,
            "ill": np.where(np.arange(rows) % 25 == 0, "yes", "no"),
        }
    )
    frame.loc[3, "hospital"] = "practice"
    frame.loc[5:9, "age"] = None
    return frame


def load(folder: Path, frame: pd.DataFrame, options: str, kind: str = "csv", **how: Any) -> Dataset:
    path = folder / f"patients.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False, **how)
    else:
        frame.to_parquet(path)
    return load_dataset(f"{kind}:{path}?{options}")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_becomes_columns_of_numbers_with_classes_and_clients(
    tmp_path: Path, kind: str
) -> None:
    dataset = load(tmp_path, patients(), "target=ill&client=hospital", kind)
    assert (dataset.kind, dataset.name) == ("table", "patients")
    assert dataset.class_names == ("no", "yes")
    assert dataset.table is not None
    assert [(c.name, c.kind, c.words) for c in dataset.table.columns] == [
        ("age", "numeric", ()),
        ("ward", "categorical", ("A", "B", "C")),
        ("smoker", "boolean", ()),
    ]
    assert (dataset.table.target, dataset.table.client) == ("ill", "hospital")
    assert dataset.group_names == {"hospital": ("north", "practice", "south")}
    assert np.isnan(np.concatenate([dataset.train.inputs, dataset.test.inputs])[:, 0]).sum() == 5
    assert len(dataset.notes) == 1
    assert "'patient' is left out" in dataset.notes[0]


def test_all_formats_and_dialects_give_the_same_numbers(tmp_path: Path) -> None:
    frame = patients()
    options = "target=ill&client=hospital&id=patient"
    first = load(tmp_path, frame, options)
    others = [
        load(tmp_path, frame, options, "parquet"),
        load(tmp_path, frame, options, sep=";", decimal=",", encoding="utf-8-sig", na_rep="NA"),
        load(tmp_path, frame, options, sep="\t", encoding="latin-1", quoting=1, na_rep="?"),
        load(tmp_path, frame[frame.columns[::-1]], options),
    ]
    for other in others[:3]:
        np.testing.assert_array_equal(first.train.inputs, other.train.inputs)
    for other in others:
        np.testing.assert_array_equal(first.train.labels, other.train.labels)
        assert first.train.files == other.train.files
        assert first.group_names == other.group_names
    np.testing.assert_array_equal(first.train.inputs, others[3].train.inputs[:, ::-1])


def test_a_fifth_of_every_clients_classes_is_for_testing(tmp_path: Path) -> None:
    dataset = load(tmp_path, patients(400), "target=ill&client=hospital")
    for part, expected in ((dataset.train, 0.8), (dataset.test, 0.2)):
        for client in (0, 2):
            ill = ((part.groups["hospital"] == client) & (part.labels == 1)).sum()
            everywhere = patients(400)
            name = dataset.group_names["hospital"][client]
            total = ((everywhere.hospital == name) & (everywhere.ill == "yes")).sum()
            assert ill == pytest.approx(expected * total, abs=0.51)
    assert (dataset.train.groups["hospital"] == 1).sum() == 1  # a client with one row trains on it
    assert (dataset.test.groups["hospital"] == 1).sum() == 0


def test_rows_keep_their_numbers_and_names(tmp_path: Path) -> None:
    frame = patients()
    frame.loc[0, "ill"] = None
    dataset = load(tmp_path, frame, "target=ill&id=patient")
    for part in (dataset.train, dataset.test):
        assert part.rows is not None
        assert part.files == tuple(f"P{row - 1:04}" for row in part.rows)
        ages = frame["age"].to_numpy()[part.rows - 1]
        np.testing.assert_array_equal(part.inputs[:, 1], ages)
    assert dataset.notes == ("row 1 is left out: the target 'ill' is missing.",)
    assert load(tmp_path, frame, "target=ill").train.files == ()


def test_rows_without_a_client_are_left_out_with_a_note(tmp_path: Path) -> None:
    frame = patients()
    frame.loc[[10, 20], "hospital"] = None
    frame.loc[:, "only"] = "x"
    frame.loc[10, ["ill", "only"]] = ["unheard of", "y"]
    dataset = load(tmp_path, frame, "target=ill&client=hospital")
    assert dataset.class_names == ("no", "yes")  # a class that only lost rows had is none
    assert "2 rows, from row 11 on, are left out: 'hospital' is missing." in dataset.notes


def test_columns_can_be_dropped_or_taken_for_names(tmp_path: Path) -> None:
    frame = patients()
    frame["stage"] = np.arange(200) % 3
    frame["seen"] = "2024-01-01"
    with pytest.raises(DataError, match=r"'seen' holds dates.*\?drop=seen"):
        load(tmp_path, frame, "target=ill")
    dataset = load(tmp_path, frame, "target=ill&drop=seen,ward&categorical=stage")
    assert dataset.table is not None
    kinds = {column.name: column.kind for column in dataset.table.columns}
    assert kinds["stage"] == "categorical"
    assert not {"seen", "ward"} & set(kinds)


def test_all_that_is_wrong_is_told_together(tmp_path: Path) -> None:
    frame = patients()
    frame["seen"] = "2024-01-01"
    frame["lab"] = [*map(str, range(199)), "high"]
    with pytest.raises(DataError, match=r"'seen' holds dates[\s\S]*'lab' holds numbers and also"):
        load(tmp_path, frame, "target=ill")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([0, 1], ("0", "1")),
        ([10, 9], ("9", "10")),
        ([0.0, 1.0], ("0", "1")),
        ([True, False], ("false", "true")),
        (["ja", "nein"], ("ja", "nein")),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_classes_are_words_whatever_they_are(
    tmp_path: Path, values: list[Any], names: tuple[str, ...], kind: str
) -> None:
    frame = patients(40).assign(ill=values * 20)
    assert load(tmp_path, frame, "target=ill", kind).class_names == names


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("drop=age", r"say which column is to be predicted.*there are patient, hospital, age"),
        ("target=il", "unknown column of .* for target 'il'; did you mean 'ill'"),
        ("target=ill&client=clinic", "unknown column of .* for client 'clinic'"),
        ("target=ill&drop=ill", "'ill' is named under target and under drop"),
        ("target=ill&client=ward&categorical=ward", "'ward' is named under client and under cat"),
        ("target=age", "has .* different values .* cut the numbers into classes"),
        ("target=patient", "has 200 different values"),
        ("target=same", "is 'x' in every row; at least two classes"),
        ("target=nothing", "must hold classes, and its cells are missing"),
        ("target=date", "must hold classes, and its cells are no words"),
        ("target=ill&client=nothing", "no row has both a target and a client"),
        ("target=ill&drop=hospital,age,ward,smoker,date", "no column to learn from; column 'patie"),
        ("target=ill&client=a%2Cb&drop=date", "rename it, without a comma"),
        ("target=ill&colour=red", "unknown option of data set 'csv' 'colour'"),
    ],
)
def test_wrong_roles_are_told_with_what_there_is(tmp_path: Path, options: str, why: str) -> None:
    frame = patients().assign(same="x", nothing="", date="2024-01-01")
    frame["a,b"] = "x"
    with pytest.raises(DataError, match=why):
        load(tmp_path, frame, options)


def test_many_classes_are_worth_a_note(tmp_path: Path) -> None:
    frame = patients().assign(ill=np.arange(200) % 60)
    assert any(
        "has 60 classes; if it is a quantity" in n
        for n in load(tmp_path, frame, "target=ill").notes
    )


def test_odd_column_names_can_be_options(tmp_path: Path) -> None:
    name = "a & b = 100%, or?"
    frame = patients().rename(columns={"ill": name})
    assert load(tmp_path, frame, f"target={as_option(name)}").class_names == ("no", "yes")


@given(st.text(min_size=1))
def test_any_text_can_be_an_option(text: str) -> None:
    spec = DatasetSpec.parse(f"csv:x?drop={as_option(text)}&target={as_option(text)}", ["csv"])
    assert spec.text("target") == text
    assert spec.texts("drop") == (text,)


def test_without_the_library_the_way_to_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'fedcord\[tables\]'"):
        load_dataset(f"csv:{tmp_path / 't.csv'}?target=b")


def test_tables_are_formats() -> None:
    assert set(TABLES) <= set(USER_FORMATS)
    assert check_spec("csv:x.csv?target=a")[1].kind == "table"


cell = st.one_of(
    st.sampled_from(
        ["", "NA", "?", "1", "2.5", "-3e4", "1,5", "true", "A", "B", "2024-01-01", " "]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
)


@settings(max_examples=60)
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=25
        )
    ),
    st.sampled_from([",", ";", "\t"]),
    st.booleans(),
)
def test_any_table_is_loaded_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], sep: str, is_client: bool
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(rows, columns=[f"c{n}" for n in range(len(rows[0]))])
    frame["y"] = ["a", "b"] * (len(rows) // 2) + ["a"] * (len(rows) % 2)
    options = "target=y" + ("&client=c0" if is_client else "")
    try:
        dataset = load(folder, frame, options, sep=sep)
    except DataError:
        return
    assert len(dataset.train) + len(dataset.test) <= len(rows)
    assert dataset.table is not None
    for place, column in enumerate(dataset.table.columns):
        values = dataset.train.inputs[:, place]
        there = values[~np.isnan(values)]
        if column.kind == "categorical":
            assert (there < len(column.words)).all()
