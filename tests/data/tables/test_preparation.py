"""Tables to inputs: by clients' sums, as scikit-learn does it with all rows in one place."""

from __future__ import annotations

import functools
import json
import operator
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedcord.core.errors import DataError
from fedcord.data.tables import preparation as preparation_module
from fedcord.data.tables.preparation import TablePreparation
from fedcord.data.tables.schema import TableColumn, TableSchema
from fedcord.data.tables.sums import NumberSums, TableSums, WordSums


def by_sums(
    columns: list[TableColumn], values: np.ndarray, num_clients: int = 3
) -> TablePreparation:
    """What the sums of some clients, one of them with a single row, make of a table."""
    labels = np.arange(len(values)) % 2
    cuts = [1, *np.linspace(2, len(values), num_clients, dtype=int)[1:-1]]
    parts = np.split(np.arange(len(values)), cuts)
    sums = [TableSums.of(columns, values[rows], ("no", "yes"), labels[rows]) for rows in parts]
    total = functools.reduce(operator.add, sums)
    return TablePreparation.from_sums(total, TableSchema(tuple(columns), "sick", "hospital"))


def numeric_rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 4)) * [1e-3, 15.0, 1e5, 2.0] + [0.02, 60.0, 1e9, -3.0]
    values[rng.random(values.shape) < 0.15] = np.nan
    return values


def test_numbers_are_scaled_and_imputed_as_scikit_learn_does() -> None:
    values = numeric_rows()
    columns = [TableColumn(f"x{n}", "numeric") for n in range(4)]
    preparation = by_sums(columns, values)
    scaler = StandardScaler().fit(values)  # it leaves missing cells out of account
    assert [c.mean for c in preparation.columns] == pytest.approx(scaler.mean_, rel=1e-12)
    assert [c.std for c in preparation.columns] == pytest.approx(scaler.scale_, rel=1e-12)
    pipeline = make_pipeline(StandardScaler(), SimpleImputer(strategy="mean", add_indicator=True))
    theirs = pipeline.fit_transform(values)
    ours = preparation.inputs(columns, values)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours[:, 0::2], theirs[:, :4], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(ours[:, 1::2], theirs[:, 4:])


@pytest.mark.parametrize("most", [100, 4])
def test_words_become_what_scikit_learn_makes_of_them(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation_module, "MOST_CATEGORIES", most)
    words = ("A", "B", "C", "D", "E", "F")
    rng = np.random.default_rng(0)
    codes = rng.choice(5, 200, p=[0.1, 0.4, 0.3, 0.15, 0.05]).astype(np.float64)  # never F
    columns = [TableColumn("ward", "categorical", words)]
    preparation = by_sums(columns, codes[:, None])
    encoder = OneHotEncoder(
        max_categories=most, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit([[words[int(code)]] for code in codes])
    new = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])  # the last is unknown
    theirs = encoder.transform([[words[int(code)]] for code in new])
    ours = preparation.inputs(columns, new[:, None])
    # scikit-learn orders by the alphabet, and puts what is rare last, as we do
    np.testing.assert_array_equal(ours, theirs)
    assert preparation.columns[0].has_other == (most < 5)


def test_a_missing_word_is_an_input_of_its_own_if_training_had_any() -> None:
    columns = [TableColumn("ward", "categorical", ("A", "B"))]
    preparation = by_sums(columns, np.array([[0.0], [1.0], [np.nan], [0.0]]))
    assert preparation.input_names == ("ward = A", "ward = B", "ward is missing")
    assert preparation.inputs(columns, np.array([[np.nan], [1.0]])).tolist() == [
        [0, 0, 1],
        [0, 1, 0],
    ]
    without = by_sums(columns, np.array([[0.0], [1.0], [1.0], [0.0]]))
    assert without.inputs(columns, np.array([[np.nan]])).tolist() == [[0, 0]]


def test_columns_that_say_nothing_are_not_used() -> None:
    columns = [
        TableColumn("age", "numeric"),
        TableColumn("same", "numeric"),
        TableColumn("one word", "categorical", ("A", "B")),
        TableColumn("nothing", "numeric"),
        TableColumn("same or missing", "numeric"),
    ]
    nan = np.nan
    rows = np.array([[1, 0.1, 0, nan, 7], [2, 0.1, 0, nan, nan], [4, 0.1, 0, nan, 7]] * 40)
    preparation = by_sums(columns, rows)
    assert preparation.input_names == ("age", "same or missing is missing")
    later = np.array([[2.0, 1e9, 1.0, 5.0, 1e9]])  # what was never seen has no weight
    assert preparation.inputs(columns, later)[0, 1] == 0


def test_columns_are_found_by_name() -> None:
    columns = [TableColumn("a", "numeric"), TableColumn("b", "numeric")]
    values = np.array([[1.0, 10.0], [2.0, 30.0], [5.0, 20.0], [1.0, 10.0]])
    preparation = by_sums(columns, values)
    other = [TableColumn("more", "numeric"), columns[1], columns[0]]
    moved = np.column_stack([np.zeros(4), values[:, 1], values[:, 0]])
    np.testing.assert_array_equal(
        preparation.inputs(other, moved), preparation.inputs(columns, values)
    )


def test_it_is_plain_values_and_comes_back_from_them() -> None:
    columns = [TableColumn("age", "numeric"), TableColumn("ward", "categorical", ("A", "B"))]
    preparation = by_sums(columns, np.array([[1.0, 0], [2.0, np.nan], [3.0, 1], [4.0, 0]]))
    text = json.dumps(preparation.to_json())
    assert TablePreparation.from_json(json.loads(text)) == preparation
    assert preparation.class_names == ("no", "yes")


def test_a_number_far_beyond_training_is_told_by_row() -> None:
    columns = [TableColumn("age", "numeric")]
    preparation = by_sums(columns, np.array([[1e-30], [2e-30], [3e-30], [4e-30]]))
    with pytest.raises(
        DataError, match=r"'age' holds 1e\+30 in row 12, where training had 2.5e-30"
    ):
        preparation.inputs(columns, np.array([[2e-30], [1e30]]), first_row=11)


def test_a_table_too_wide_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [TableColumn("age", "numeric")]
    preparation = by_sums(columns, np.array([[1.0], [2.0], [3.0]]))
    monkeypatch.setattr(preparation_module, "data_limit", lambda: 7)
    with pytest.raises(DataError, match="3 rows of 1 inputs"):
        preparation.inputs(columns, np.zeros((3, 1)))


def test_sums_must_fit_the_table() -> None:
    schema = TableSchema((TableColumn("age", "numeric"),), "sick")
    with pytest.raises(DataError, match="sums of the columns weight, but the table has age"):
        TablePreparation.from_sums(TableSums({"weight": NumberSums()}, {}), schema)
    with pytest.raises(DataError, match="'age' is numeric, but its sums are not"):
        TablePreparation.from_sums(TableSums({"age": WordSums(0, {"a": 1})}, {}), schema)
    with pytest.raises(DataError, match="no column of the table varies"):
        TablePreparation.from_sums(TableSums({"age": NumberSums(3, 0, 3.0, 0.0)}, {}), schema)
    huge = NumberSums(2, 0, 1e308, 1e308) + NumberSums(2, 0, -1e308, 1e308)
    with pytest.raises(DataError, match="too large to be added"):
        TablePreparation.from_sums(TableSums({"age": huge}, {}), schema)


COLUMN = {
    "name": "age",
    "kind": "numeric",
    "mean": 1.0,
    "std": 2.0,
    "categories": [],
    "has_other": False,
    "has_missing": False,
}
WHOLE: dict[str, Any] = {
    "columns": [COLUMN],
    "class_names": ["no", "yes"],
    "target": "sick",
    "client": "",
    "row_id": "",
    "missing": [],
}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (None, "expected .*found None"),
        ({**WHOLE, "more": 1}, "expected class_names, client"),
        ({**WHOLE, "columns": 1}, "expected a list"),
        ({**WHOLE, "columns": []}, "no columns"),
        ({**WHOLE, "class_names": [1]}, "expected text, found 1"),
        ({**WHOLE, "columns": [{**COLUMN, "kind": "date"}]}, "kind is 'date'"),
        ({**WHOLE, "columns": [{**COLUMN, "std": -1.0}]}, "the deviation -1.0"),
        ({**WHOLE, "columns": [{**COLUMN, "mean": float("inf")}]}, "the mean inf"),
        ({**WHOLE, "columns": [{**COLUMN, "mean": "1"}]}, "the mean '1'"),
        ({**WHOLE, "columns": [{**COLUMN, "has_other": 1}]}, "has_other and has_missing"),
    ],
)
def test_odd_values_are_no_preparation(values: object, why: str) -> None:
    with pytest.raises(DataError, match=f"no preparation of a table: .*{why}"):
        TablePreparation.from_json(values)
