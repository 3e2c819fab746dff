"""What a column is taken for, and what is refused or left out, with which words."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedcord.data.tables.examine import Examined, examine
from fedcord.data.tables.raw import RawTable, in_order, words_of


def look(cells: Any, *, comma: bool = False, kind: Any = None, **options: Any) -> Examined:
    return examine(RawTable(pa.table({"x": pa.array(cells, kind)}), comma), "x", **options)


def test_text_that_is_all_numbers_is_numeric() -> None:
    found = look([" 1", "2.5", "-3e2", "+4", "", "NA", "?", "1"])
    assert (found.kind, found.missing, found.distinct) == ("numeric", 3, 4)
    assert found.values is not None
    np.testing.assert_array_equal(found.values, [1, 2.5, -300, 4, np.nan, np.nan, np.nan, 1])
    assert found.summary == "-300 to 4"


def test_a_decimal_comma_counts_where_cells_are_divided_by_something_else() -> None:
    cells = ["1,5", "2", "-0,25", "NA"]
    found = look(cells, comma=True)
    assert found.kind == "numeric"
    assert found.values is not None
    np.testing.assert_array_equal(found.values, [1.5, 2, -0.25, np.nan])
    assert look(cells).kind == "categorical"  # 1,234 may as well be a thousand


def test_points_and_commas_in_one_column_are_refused() -> None:
    cells = [f"{n},5" for n in range(20)] + ["1.234"]
    assert "numbers and also '1.234' in row 21, '0,5' in row 1" in look(cells, comma=True).problem


def test_a_few_words_among_numbers_are_told_by_row() -> None:
    cells = [str(n) for n in range(50)] + ["<0.1", "high"]
    problem = look(cells).problem
    assert "'x' holds numbers and also '<0.1' in row 51, 'high' in row 52" in problem
    assert "?missing=<0.1" in problem
    assert "?categorical=x" in problem
    assert look(cells, missing=("<0.1", "high")).missing == 2


def test_further_words_for_missing_cells_hold_for_numbers_too() -> None:
    assert look([1, 2, -999], missing=("-999",)).missing == 1
    assert look(["1", "2", "-999"], missing=("-999",)).missing == 1
    assert look([1.5, -999.0], missing=("-999",)).missing == 1
    assert look([1, -999], missing=("-999",), categorical=True).words == ("1",)


@pytest.mark.parametrize(
    "cells",
    [
        ["true", "false", "", "true"],
        ["True", "FALSE", None, "TRUE"],
        [True, False, None, True],
    ],
)
def test_true_and_false_are_one_and_zero(cells: list[Any]) -> None:
    found = look(cells)
    assert (found.kind, found.missing, found.summary) == ("boolean", 1, "66.7% true")
    assert found.values is not None
    np.testing.assert_array_equal(found.values, [1, 0, np.nan, 1])


def test_few_whole_numbers_stay_numbers_unless_told_otherwise() -> None:
    found = look(["1", "2", "3", "3"])
    assert found.kind == "numeric"
    assert "3 whole numbers: ?categorical=x if they are codes" in found.summary
    named = look(["10", "9", "3", ""], categorical=True)
    assert (named.kind, named.words, named.missing) == ("categorical", ("3", "9", "10"), 1)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", "1.0", ""], None),
        ([1, 2, 1, None], pa.int8()),
        ([1.0, 2.0, 1.0, float("nan")], pa.float32()),
        (["1", "2", "1", None], pa.dictionary(pa.int8(), pa.string())),
        ([decimal.Decimal("1.0"), decimal.Decimal("2.0"), decimal.Decimal("1.0"), None], None),
    ],
)
def test_a_code_is_the_same_word_in_every_format(cells: list[Any], kind: Any) -> None:
    found = look(cells, kind=kind, categorical=True)
    assert (found.words, found.missing) == (("1", "2"), 1)
    assert found.values is not None
    np.testing.assert_array_equal(found.values, [0, 1, 0, np.nan])


def test_large_codes_keep_all_their_digits() -> None:
    assert look([2**60 + 1, 2**60], categorical=True).words == (str(2**60), str(2**60 + 1))


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["2024-01-31", "2024-02-01", ""], None),
        (["2024-01-31T10:00:00", "2024-02-01T11:30:00Z"], None),
        (["31.01.2024", "1.2.24"], None),
        (["01/31/2024 10:15", "02/01/2024 11:15"], None),
        (["10:15", "23:59:59"], None),
        (["3 Jan 2024", "4-Feb-24"], None),
        ([datetime.date(2024, 1, 31)], None),
        ([datetime.datetime(2024, 1, 31), None], None),
        ([datetime.timedelta(days=1)], None),
    ],
)
def test_dates_are_refused_with_advice(cells: list[Any], kind: Any) -> None:
    found = look(cells, kind=kind)
    assert found.kind == "date"
    assert found.distinct == len([cell for cell in cells if cell])
    assert "days since admission, or leave the column out with ?drop=x" in found.problem
    assert not found.is_input


def test_version_like_and_plain_words_are_no_dates() -> None:
    assert look(["grade 1-2", "T3", "1-2", "T3"]).kind == "categorical"


def test_a_text_of_its_own_in_every_row_is_an_identifier() -> None:
    found = look([f"P{n}" for n in range(30)] + [""])
    assert (found.kind, found.is_input) == ("identifier", False)
    assert found.summary == "P0, P1, P2, …"
    assert "?id=x names rows by it" in found.note
    assert look([f"P{n}" for n in range(10)]).kind == "categorical"  # too few to tell


def test_numbers_that_count_the_rows_are_left_out() -> None:
    assert "it numbers the rows" in look([str(n) for n in range(40)]).note
    assert look([str(n * n) for n in range(40)]).is_input


@pytest.mark.parametrize("cells", [["", "NA", "?"], [None, None], [float("nan")]])
def test_a_column_without_any_cell_is_left_out(cells: list[Any]) -> None:
    assert "all of its cells are missing" in look(cells).note
    assert "all of its cells are missing" in look(cells, categorical=True).note


def test_a_constant_column_is_left_out_unless_cells_are_missing() -> None:
    assert "it is 7 in every row" in look(["7", "7"]).note
    assert "it is 'A' in every row" in look(["A", "A"]).note
    assert look(["7", ""]).is_input
    assert look(["A", ""]).is_input


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e39"])
def test_numbers_without_end_are_refused_by_row(cell: str) -> None:
    assert "in row 2; numbers must be finite" in look(["1", cell]).problem


def test_texts_of_thousands_of_letters_are_no_categories() -> None:
    assert "up to 2,000 characters, first in row 2" in look(["a", "b" * 2000, "a"]).problem


def test_lists_are_neither_numbers_nor_words() -> None:
    assert "holds list<" in look([[1, 2], [3]]).problem


def test_words_that_no_row_has_are_forgotten() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), ["unused", "A"])
    assert words_of(array).words == ("A",)


def test_words_are_ordered_as_people_would() -> None:
    assert in_order(["10", "9", "-1", "b", "B", "1e5"]) == ("-1", "9", "10", "1e5", "B", "b")
