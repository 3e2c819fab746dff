"""New rows by an old preparation: other columns, other order, other words."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedcord.core.errors import DataError
from fedcord.data.tables.preparation import PreparedColumn, TablePreparation
from fedcord.data.tables.raw import RawTable
from fedcord.data.tables.rows import prepare_rows

PREPARATION = TablePreparation(
    (
        PreparedColumn("age", "numeric", 60.0, 10.0, has_missing=True),
        PreparedColumn("ward", "categorical", categories=("A", "B")),
        PreparedColumn("smoker", "boolean", 0.5, 0.5),
    ),
    class_names=("no", "yes"),
    target="sick",
    client="hospital",
    row_id="patient",
    missing=("unknown",),
)


def rows(comma: bool = False, first_row: int = 1, **cells: Any) -> RawTable:
    return RawTable(pa.table(cells), comma, first_row)


def test_columns_in_any_order_with_others_between() -> None:
    done = prepare_rows(
        PREPARATION,
        rows(
            smoker=["true", "false", ""],
            extra=["x", "y", "z"],
            patient=["p1", "p2", "p3"],
            ward=["B", "A", "C"],
            age=["70", "unknown", "60"],
            hospital=["n", "n", "s"],
        ),
    )
    expected = [[1, 0, 0, 1, 1], [0, 1, 1, 0, -1], [0, 0, 0, 0, 0]]
    assert done.inputs.tolist() == expected
    assert done.names == ("p1", "p2", "p3")
    assert done.labels is None
    assert done.notes == (
        "column 'ward' has categories that training did not have (C); they are taken for none of "
        "the known ones.",
        "columns that the model does not use: extra.",
    )


def test_a_data_frame_gives_what_the_text_gives() -> None:
    text = rows(age=["70.5", ""], ward=["A", "B"], smoker=["true", "false"], sick=["no", "yes"])
    frame = pd.DataFrame(
        {
            "sick": ["no", "yes"],
            "ward": pd.Categorical(["A", "B"]),
            "smoker": [True, False],
            "age": [70.5, None],
        }
    )
    one, two = prepare_rows(PREPARATION, text), prepare_rows(PREPARATION, RawTable.of_frame(frame))
    np.testing.assert_array_equal(one.inputs, two.inputs)
    assert one.labels is not None
    assert two.labels is not None
    assert one.labels.tolist() == two.labels.tolist() == [0, 1]
    assert one.names == ("1", "2")


def test_rows_without_names_are_called_by_their_number_in_the_file() -> None:
    part = rows(age=["1", "2"], ward=["A", "B"], smoker=["1", "0"], first_row=101)
    assert prepare_rows(PREPARATION, part).names == ("101", "102")


def test_a_missing_column_is_told_with_those_there_are() -> None:
    with pytest.raises(
        DataError, match=r"lacks ward, smoker, of which the model learns; it has age, sick: add"
    ):
        prepare_rows(PREPARATION, rows(age=["1"], sick=["no"]))


def test_a_row_without_its_name_is_refused() -> None:
    table = rows(age=["1", "2"], ward=["A", "B"], smoker=["1", "0"], patient=["p", ""])
    with pytest.raises(DataError, match="'patient' names the rows, but its cell in row 2 is empty"):
        prepare_rows(PREPARATION, table)


def test_a_class_that_training_did_not_have_is_refused() -> None:
    table = rows(age=["1", "2"], ward=["A", "B"], smoker=["1", "0"], sick=["no", "maybe"])
    with pytest.raises(DataError, match=r"'sick', row 2: unknown class 'maybe'.*Allowed: no, yes"):
        prepare_rows(PREPARATION, table)


def test_a_row_without_a_target_has_no_label() -> None:
    table = rows(age=["1", "2"], ward=["A", "B"], smoker=["1", "0"], sick=["", "yes"])
    labels = prepare_rows(PREPARATION, table).labels
    assert labels is not None
    assert labels.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["70", "old"], "'age' is numeric, but row 2 holds 'old'"),
        (["2024-01-01", "70"], "row 1 holds '2024-01-01'"),
        (["1", "inf"], "numbers must be finite"),
    ],
)
def test_a_word_where_training_had_numbers_is_told_by_row(cells: list[str], why: str) -> None:
    with pytest.raises(DataError, match=why):
        prepare_rows(PREPARATION, rows(age=cells, ward=["A", "B"], smoker=["1", "0"]))


def test_a_date_where_training_had_words_is_refused() -> None:
    table = rows(age=["1"], ward=[datetime.date(2024, 1, 1)], smoker=["1"])
    with pytest.raises(DataError, match="'ward' holds dates"):
        prepare_rows(PREPARATION, table)


def test_cells_that_look_like_something_else_in_a_few_rows_stay_what_training_had() -> None:
    count = 30
    table = rows(
        age=[str(n) for n in range(count)],  # they number the rows here
        ward=[""] * count,
        smoker=["1"] * count,
    )
    done = prepare_rows(PREPARATION, table)
    assert done.inputs[:, 0].tolist() == pytest.approx([(n - 60) / 10 for n in range(count)])
    assert not done.inputs[:, 2:4].any()


def test_a_decimal_comma_is_the_new_files_own_business() -> None:
    table = rows(True, age=["70,5"], ward=["A"], smoker=["0"])
    assert prepare_rows(PREPARATION, table).inputs[0, 0] == pytest.approx(1.05)
