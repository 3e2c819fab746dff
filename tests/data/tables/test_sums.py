"""What clients add up: the sum of parts is the sum of the whole, and nothing odd gets in."""

from __future__ import annotations

import functools
import json
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcord.core.errors import DataError
from fedcord.data.tables.schema import TableColumn
from fedcord.data.tables.sums import NumberSums, TableSums, WordSums

COLUMNS = (
    TableColumn("age", "numeric"),
    TableColumn("smoker", "boolean"),
    TableColumn("ward", "categorical", ("A", "B", "never")),
)
CLASSES = ("no", "yes")


def some_rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    values = np.column_stack(
        [
            rng.normal(1e6, 3.0, count),  # far from zero, where Σx² alone loses the spread
            rng.integers(0, 2, count),
            rng.integers(0, 2, count).astype(np.float64),
        ]
    )
    values[rng.random(values.shape) < 0.2] = np.nan
    return values, rng.integers(0, 2, count)


def test_one_client_with_all_rows_has_the_textbook_sums() -> None:
    values, labels = some_rows(200)
    sums = TableSums.of(COLUMNS, values, CLASSES, labels)
    age = sums.columns["age"]
    ages = values[~np.isnan(values[:, 0]), 0]
    assert isinstance(age, NumberSums)
    assert (age.present, age.missing) == (len(ages), 200 - len(ages))
    assert age.total == pytest.approx(ages.sum(), rel=1e-14)
    assert age.squares == pytest.approx(ages.var() * len(ages), rel=1e-12)
    ward = sums.columns["ward"]
    assert isinstance(ward, WordSums)
    assert ward.counts == {w: int((values[:, 2] == n).sum()) for n, w in enumerate("AB")}
    assert sums.classes == {"no": int((labels == 0).sum()), "yes": int((labels == 1).sum())}


@given(st.lists(st.integers(0, 60), max_size=6))
def test_clients_of_any_size_add_up_to_everybody(cuts: list[int]) -> None:
    values, labels = some_rows(60)
    parts = np.split(np.arange(60), sorted(cuts))  # some of them empty, some of one row
    clients = [TableSums.of(COLUMNS, values[rows], CLASSES, labels[rows]) for rows in parts]
    total = functools.reduce(operator.add, clients)
    whole = TableSums.of(COLUMNS, values, CLASSES, labels)
    assert total.classes == whole.classes
    assert total.columns["ward"] == whole.columns["ward"]
    for name in ("age", "smoker"):
        mine, theirs = total.columns[name], whole.columns[name]
        assert isinstance(mine, NumberSums)
        assert isinstance(theirs, NumberSums)
        assert (mine.present, mine.missing) == (theirs.present, theirs.missing)
        assert mine.total == pytest.approx(theirs.total, rel=1e-13)
        # of means near 1e6, ten digits behind the point are left; Σx² would leave five
        assert mine.squares == pytest.approx(theirs.squares, rel=1e-9)


def test_words_that_a_client_does_not_have_are_not_told() -> None:
    assert WordSums.of(np.array([0.0, 0.0]), ("A", "secret")).counts == {"A": 2}


def test_sums_travel_as_json() -> None:
    values, labels = some_rows(30)
    sums = TableSums.of(COLUMNS, values, CLASSES, labels)
    assert TableSums.from_json(json.loads(json.dumps(sums.to_json()))) == sums


def test_a_column_of_two_kinds_is_refused() -> None:
    numbers = TableSums({"code": NumberSums(1, 0, 3.0, 0.0)}, {})
    words = TableSums({"code": WordSums(0, {"3": 1})}, {})
    with pytest.raises(DataError, match=r"'code' is numeric for one client and categorical for an"):
        numbers + words
    with pytest.raises(DataError, match="'code' is numeric for one client and not there for an"):
        numbers + TableSums({}, {})


GOOD = {"present": 2, "missing": 0, "total": 3.0, "squares": 0.5}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([], "expected the keys columns and classes"),
        ({"columns": {}}, "expected the keys"),
        ({"columns": 3, "classes": {}}, "expected a table of values, found 3"),
        ({"columns": {"a": {**GOOD, "squares": -1.0}}, "classes": {}}, "total and squares"),
        ({"columns": {"a": {**GOOD, "total": float("nan")}}, "classes": {}}, "total and squares"),
        ({"columns": {"a": {**GOOD, "total": 10**400}}, "classes": {}}, "too large"),
        ({"columns": {"a": {**GOOD, "present": True}}, "classes": {}}, "'a' has the count True"),
        ({"columns": {"a": {**GOOD, "present": -1}}, "classes": {}}, "'a' has the count -1"),
        ({"columns": {"a": {**GOOD, "present": 0}}, "classes": {}}, "a total and no cells"),
        ({"columns": {"a": {"present": 1}}, "classes": {}}, "needs present, missing, total"),
        ({"columns": {"a": {"missing": 0, "counts": {"x": 0}}}, "classes": {}}, "the count 0"),
        ({"columns": {"a\n": GOOD}, "classes": {}}, "is no name"),
        ({"columns": {}, "classes": {"x": 1.5}}, "the count 1.5"),
    ],
)
def test_odd_values_are_no_sums(values: object, why: str) -> None:
    with pytest.raises(DataError, match=f"no sums of a table: .*{why}"):
        TableSums.from_json(values)
